"""Bytes to lines of text: invalid bytes (PEP 383 surrogates meanwhile) and NULs stop the job, or
become U+FFFD and are counted."""

import re
import shlex
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from mlm.config.corpus import Corpus
from mlm.foundations.errors import MlmError

#: The longest line, paragraph or file that is taken as one document.
LONGEST_DOCUMENT = 256 << 20
_REPLACEMENT = "\ufffd"
_UTF_8 = "utf-8"
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")
_ADVICE = (
    " Mend the source, or set corpus.encoding_errors to replace, which puts U+FFFD in its "
    "place and counts it"
)


class CleanText(NamedTuple):
    """A document's text, and what was replaced in it."""

    text: str
    replaced_bytes: int
    nul_bytes: int


def clean(text: str) -> CleanText:
    """`text` with lone surrogates (invalid bytes) and NULs replaced by U+FFFD."""
    nul = text.count("\0")
    if nul:
        text = text.replace("\0", _REPLACEMENT)
    replaced = 0
    if not text.isascii():
        text, replaced = _SURROGATE.subn(_REPLACEMENT, text)
    return CleanText(text, replaced, nul)


def has_surrogate(text: str) -> bool:
    """Whether there is a lone surrogate in `text`, such as an invalid byte."""
    return _SURROGATE.search(text) is not None


def refuse_unclean(text: str, where: str) -> None:
    """Raise MlmError if `text` holds a NUL or a lone surrogate, as escapes in JSON write them."""
    if "\0" in text:
        raise MlmError(f"{where}: a NUL character at character {text.index(chr(0))}.{_ADVICE}")
    if not text.isascii() and (match := _SURROGATE.search(text)):
        raise MlmError(
            f"{where}: a lone surrogate (U+{ord(match[0]):04X}) at character {match.start()}, "
            f"which no Unicode text holds.{_ADVICE}"
        )


class Place(NamedTuple):
    """Where a line begins: its byte, from 0, and its number, from 1."""

    byte: int = 0
    line: int = 1


def text_lines(
    stream: BinaryIO, name: str, settings: Corpus, place: Place, stop: int | None
) -> Iterator[tuple[int, str]]:
    """The number and the text of each line that begins before byte `stop`, its end included.

    Lines end with LF alone. `stream` is at `place` of the file `name`, whose byte-order mark is
    dropped. Raises MlmError for lines over LONGEST_DOCUMENT, CR alone, and with `strict` invalid
    bytes and NULs.
    """
    (offset, number), encoding = place, settings.encoding
    strict = settings.encoding_errors == "strict"
    errors = "strict" if strict else "surrogateescape"
    while (stop is None or offset < stop) and (line := stream.readline(LONGEST_DOCUMENT + 1)):
        if offset == 0 and b"\r" in line and not line.endswith(b"\n"):
            raise MlmError(
                f"{name}: its lines end in CR alone, as on the Macintosh before 2001, so that the "
                "whole file would be one line; LF or CR LF is expected. Convert it: "
                f"tr '\\r' '\\n' < {shlex.quote(name)} > converted"
            )
        if len(line) > LONGEST_DOCUMENT:
            raise too_long(name, number, "line")
        if offset == 0 and encoding == _UTF_8 and line.startswith(_BOM):
            line, offset = line[len(_BOM) :], len(_BOM)
        try:
            text = line.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise _undecodable(error, line, name, Place(offset, number), encoding) from None
        if strict and "\0" in text:
            where = f"{name}, line {number}, byte offset {offset + line.index(0)}"
            raise MlmError(f"{where}: a NUL byte.{_ADVICE}")
        yield number, text
        offset += len(line)
        number += 1


def _undecodable(
    error: UnicodeDecodeError, line: bytes, name: str, place: Place, encoding: str
) -> MlmError:
    shown = "UTF-8" if encoding == _UTF_8 else encoding
    what = f"byte 0x{line[error.start]:02x} is not {shown} ({error.reason})"
    if encoding == _UTF_8:
        what += "; if the files are in another encoding, name it in corpus.encoding"
    if place.byte == 0 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
        what += "; the file seems to be UTF-16: convert it to UTF-8 "
        what += f"(iconv -f utf-16 -t utf-8 {shlex.quote(name)} > converted)"
    offset = place.byte + error.start
    return MlmError(f"{name}, line {place.line}, byte offset {offset}: {what}.{_ADVICE}")


def too_long(name: str, line: int, what: str) -> MlmError:
    """The error for a document that no stage could hold in memory."""
    return MlmError(
        f"{name}: the {what} that starts in line {line} is longer than "
        f"{LONGEST_DOCUMENT >> 20} MiB. A document must fit into memory: break the text into "
        "lines, or choose another corpus.files.document_per"
    )


def document_begin(stream: BinaryIO, position: int, per: str, encoding: str) -> int:
    """The first byte from `position` on at which a document (`per` line, or paragraph) begins, or
    the end of the file."""
    if position == 0:
        return 0
    stream.seek(position - 1)
    while (part := stream.readline(1 << 20)) and not part.endswith(b"\n"):
        pass
    begin = stream.tell()
    if per == "paragraph":
        while (line := stream.readline()) and line.decode(encoding, "surrogateescape").strip():
            begin += len(line)
    return begin

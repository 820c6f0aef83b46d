"""Bytes to lines of text; invalid bytes and NULs stop the job, or become U+FFFD and are counted."""

import codecs
import re
import shlex
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from mlm.config.corpus import Corpus, encoding_name
from mlm.foundations.errors import MlmError

#: The longest line, paragraph or file that is taken as one document.
LONGEST_DOCUMENT = 256 << 20
_REPLACEMENT = "\ufffd"
BYTE_ORDER_MARK = "\ufeff"
_MARK = re.compile(f"^{BYTE_ORDER_MARK}+", re.M)
_UTF_8 = "utf-8"
_SURROGATE, _UNCLEAN = re.compile("[\ud800-\udfff]"), re.compile("[\0\ud800-\udfff]")
_ADVICE = (
    " Mend the source, or set corpus.encoding_errors to replace, which puts U+FFFD in its "
    "place and counts it"
)


class CleanText(NamedTuple):
    """A document's text, and what was replaced in it or removed from it."""

    text: str
    replaced_bytes: int
    nul_bytes: int
    byte_order_marks: int


def is_clean(text: str) -> bool:
    """Whether `text` has neither NULs, lone surrogates nor byte-order marks."""
    if "\0" in text:
        return False
    return text.isascii() or not (BYTE_ORDER_MARK in text or _SURROGATE.search(text))


def clean(text: str) -> CleanText:
    """`text` with lone surrogates (invalid bytes) and NULs replaced by U+FFFD, and without the
    byte-order marks at the start of lines, which joined files have."""
    nul = text.count("\0")
    if nul:
        text = text.replace("\0", _REPLACEMENT)
    replaced = marks = 0
    if not text.isascii():
        text, replaced = _SURROGATE.subn(_REPLACEMENT, text)
        text, marks = _MARK.subn("", text)
    return CleanText(text, replaced, nul, marks)


def refuse_unclean(text: str, where: str) -> None:
    """Raise MlmError if `text` holds a NUL or a lone surrogate, as escapes in JSON write them."""
    if not is_clean(text) and (match := _UNCLEAN.search(text)):
        raise MlmError(
            f"{where}: a NUL or lone surrogate (U+{ord(match[0]):04X}) at character "
            f"{match.start()}, which no text holds.{_ADVICE}"
        )


def text_lines(
    stream: BinaryIO,
    name: str,
    settings: Corpus,
    stop: int | None = None,
    offset: int = 0,
    number: int = 1,
) -> Iterator[tuple[int, str]]:
    """The number and the text of each line that begins before byte `stop`, its end (LF) included.

    `stream` is at byte `offset` of the file `name`, where line `number` begins. Raises MlmError for
    lines over LONGEST_DOCUMENT, CR alone, and with `strict` invalid bytes and NULs.
    """
    encoding, strict = encoding_name(settings.encoding), settings.encoding_errors == "strict"
    errors = "strict" if strict else "surrogateescape"
    while (stop is None or offset < stop) and (line := stream.readline(LONGEST_DOCUMENT + 1)):
        if offset == 0 and b"\r" in line and not line.endswith(b"\n"):
            raise MlmError(
                f"{name}: its lines end in CR alone, as on the Macintosh before 2001; LF or CR LF "
                f"is expected. Convert it: tr '\\r' '\\n' < {shlex.quote(name)} > converted"
            )
        if len(line) > LONGEST_DOCUMENT:
            raise too_long(name, number, "line")
        if offset == 0 and encoding == _UTF_8 and line.startswith(codecs.BOM_UTF8):
            line, offset = line[3:], 3
        try:
            text = line.decode(encoding, errors)
        except UnicodeDecodeError as error:
            shown = "UTF-8" if encoding == _UTF_8 else encoding
            raise MlmError(
                f"{name}, line {number}, byte offset {offset + error.start}: byte "
                f"0x{line[error.start]:02x} is not {shown} ({error.reason}). Name the encoding of "
                f"the files in corpus.encoding.{_ADVICE}"
            ) from None
        if strict and "\0" in text:
            at = offset + line.index(0)
            raise MlmError(f"{name}, line {number}, byte offset {at}: a NUL byte.{_ADVICE}")
        yield number, text
        offset, number = offset + len(line), number + 1


def too_long(name: str, line: int, what: str) -> MlmError:
    """The error for a document that no stage could hold in memory."""
    return MlmError(
        f"{name}: the {what} that starts in line {line} is longer than "
        f"{LONGEST_DOCUMENT >> 20} MiB. A document must fit into memory: break the text into "
        "lines, or choose another corpus.files.document_per"
    )


def document_begin(stream: BinaryIO, position: int, per: str, encoding: str) -> int:
    """The first byte from `position` on at which a document (`per` line or paragraph) begins."""
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

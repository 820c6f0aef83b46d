"""Bytes to text, one document at a time, with nothing lost or repaired in silence.

Text that is not of `corpus.encoding`, and NUL characters, either stop the job with their place, or
become U+FFFD and are counted, by the policy `corpus.encoding_errors`. In between, an undecodable
byte is carried as a lone surrogate (PEP 383), so that each document knows its own count.
"""

import io
import re
import shlex
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from mlm.foundations.errors import MlmError

BLOCK_BYTES = 1 << 20
#: The longest line, paragraph or file that is taken as one document.
LONGEST_DOCUMENT = 256 << 20
REPLACEMENT = "\ufffd"
UTF_8 = "utf-8"
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Place(NamedTuple):
    """Where a stretch of a file begins: its byte, from 0, and its line, from 1."""

    byte: int = 0
    line: int = 1


FILE_BEGIN = Place()


class CleanText(NamedTuple):
    """A document's text as UTF-8 can hold it, and what was replaced in it."""

    text: str
    replaced_bytes: int
    nul_bytes: int


def clean(text: str) -> CleanText:
    """`text` with lone surrogates (undecodable bytes) and NULs replaced by U+FFFD."""
    nul = text.count("\0")
    if nul:
        text = text.replace("\0", REPLACEMENT)
    replaced = 0
    if not text.isascii():
        text, replaced = _SURROGATE.subn(REPLACEMENT, text)
    return CleanText(text, replaced, nul)


def has_surrogate(text: str) -> bool:
    """Whether there is a lone surrogate in `text`, an undecodable byte for one."""
    return _SURROGATE.search(text) is not None


def check_text(text: str, where: str) -> None:
    """Raise MlmError where a string out of a file format cannot be taken as it is.

    For the policy `strict`: JSON's escapes, for instance, can write both NULs and lone
    surrogates into a file that is valid UTF-8.
    """
    if "\0" in text:
        raise MlmError(f"{where}: a NUL character at character {text.index(chr(0))}.{_ADVICE}")
    if not text.isascii() and (match := _SURROGATE.search(text)):
        raise MlmError(
            f"{where}: a lone surrogate (U+{ord(match[0]):04X}) at character {match.start()}, "
            f"which no Unicode text holds.{_ADVICE}"
        )


_ADVICE = (
    " Mend the source, or set corpus.encoding_errors to replace, which puts U+FFFD in its "
    "place and counts it"
)


def decode(
    data: bytes, name: str, line: int, offset: int, errors: str, encoding: str = UTF_8
) -> str:
    """`data` as text; `name`, `line` and `offset` say where its first byte stands.

    `errors` is strict or replace. Raises MlmError with file, line and byte offset of the
    first byte that is not of `encoding`, or NUL, where it is strict.
    """
    if errors == "replace":
        return data.decode(encoding, "surrogateescape")
    try:
        text = data.decode(encoding)
        start = data.find(b"\0")
        what = "a NUL byte"
    except UnicodeDecodeError as error:
        text, start = "", error.start
        what = f"byte 0x{data[start]:02x} is not {_shown(encoding)} ({error.reason})"
        if encoding == UTF_8:
            what += "; where files are in another encoding, corpus.encoding names it"
        if offset == 0 and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            what += "; the file seems to be UTF-16: convert it to UTF-8 "
            what += f"(iconv -f utf-16 -t utf-8 {shlex.quote(name)} > converted)"
    if start >= 0:
        line += data.count(b"\n", 0, start)
        raise MlmError(f"{name}, line {line}, byte offset {offset + start}: {what}.{_ADVICE}")
    return text


def _shown(encoding: str) -> str:
    return "UTF-8" if encoding == UTF_8 else encoding


def too_long(name: str, line: int, what: str) -> MlmError:
    """The error for a document that no stage could hold in memory."""
    return MlmError(
        f"{name}: the {what} that starts in line {line} is longer than "
        f"{LONGEST_DOCUMENT >> 20} MiB. A document must fit into memory: break the text into "
        "lines, or choose another corpus.files.document_per"
    )


def _no_line_feed(name: str) -> MlmError:
    return MlmError(
        f"{name}: its lines end in CR alone, as on the Macintosh before 2001, so that the whole "
        "file would be one line; LF or CR LF is expected. Convert it: "
        f"tr '\\r' '\\n' < {shlex.quote(name)} > converted"
    )


class Block(NamedTuple):
    """Whole lines of a file, about 1 MiB of them, and where the first one begins."""

    data: bytes
    place: Place


def byte_blocks(
    stream: BinaryIO, name: str, encoding: str = UTF_8, place: Place = FILE_BEGIN
) -> Iterator[Block]:
    """The bytes of `stream` in blocks of whole lines, in order.

    It begins at `place` of the file. A byte-order mark at the file's start is dropped. Memory: one
    block, or the longest line. Raises MlmError for a line beyond LONGEST_DOCUMENT, and for a file
    with CRs and no LF.
    """
    (offset, line), pending, size = place, [], 0
    # Of a file that was not divided, all that was read so far.
    first_line = place == FILE_BEGIN
    while True:
        chunk = stream.read(BLOCK_BYTES)
        cut = chunk.rfind(b"\n") + 1
        if chunk and not cut:
            pending.append(chunk)
            size += len(chunk)
            if size > LONGEST_DOCUMENT:
                no_end = first_line and any(b"\r" in part for part in pending)
                raise _no_line_feed(name) if no_end else too_long(name, line, "line")
            continue
        data = b"".join([*pending, chunk[:cut]])
        if offset == 0 and encoding == UTF_8 and data.startswith(_BOM):
            data, offset = data[len(_BOM) :], len(_BOM)
        if data:
            if first_line and b"\r" in data and b"\n" not in data:
                raise _no_line_feed(name)
            yield Block(data, Place(offset, line))
        if not chunk:
            return
        line += data.count(b"\n")
        first_line = False
        offset += len(data)
        pending, size = [chunk[cut:]], len(chunk) - cut


def block_lines(block: Block, name: str, errors: str, encoding: str = UTF_8) -> list[str]:
    """The lines of a block as text, without their ends, LF or CR LF.

    Raises MlmError as `decode` does.
    """
    text = decode(block.data, name, block.place.line, block.place.byte, errors, encoding)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def text_lines(
    stream: BinaryIO,
    name: str,
    errors: str,
    encoding: str = UTF_8,
    keep_ends: bool = False,
    place: Place = FILE_BEGIN,
) -> Iterator[str]:
    """The lines of `stream`, ended by LF or CR LF and by nothing else Unicode calls a line end.

    The ends are left out unless `keep_ends`. Raises MlmError as `decode` and `byte_blocks`.
    """
    for block in byte_blocks(stream, name, encoding, place):
        if keep_ends:
            at = block.place
            text = decode(block.data, name, at.line, at.byte, errors, encoding)
            yield from io.StringIO(text, newline="\n")
        else:
            yield from block_lines(block, name, errors, encoding)

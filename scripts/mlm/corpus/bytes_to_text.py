"""Compressed bytes to bytes, these to lines of text, and these to rows of tables; invalid bytes and
NULs stop the job, or become U+FFFD and are counted; the Unicode form of a text."""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from mlm.config.filters import Normalisation
from mlm.corpus.artefacts import Encoding
from mlm.foundations.errors import MlmError

#: The longest line, paragraph or file that is taken as one document.
LONGEST_DOCUMENT = 256 << 20
UNCHANGED = Encoding()
_REPLACEMENT = "\ufffd"
BYTE_ORDER_MARK = "\ufeff"
_MARK = re.compile(f"^{BYTE_ORDER_MARK}+", re.M)
_SURROGATE, _UNCLEAN = re.compile("[\ud800-\udfff]"), re.compile("[\0\ud800-\udfff]")
QUOTES_ADVICE = (
    "A field that holds the separator, a line end or a double quote must be in double quotes, and "
    "a double quote in it is doubled; or give a .jsonl file"
)
_ADVICE = (
    " Mend the source, or set corpus.encoding_errors to replace, which puts U+FFFD in its "
    "place and counts it"
)
_DECOMPRESSORS = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}
_BUFFER = 1 << 16


@contextmanager
def decompressed(file: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    """Context manager: the decompressed bytes of the open `file` (by one of COMPRESSIONS, or None),
    all members or frames as one stream. Raises MlmError for damaged data."""
    if compression is None:
        yield file
        return
    if opener := _DECOMPRESSORS.get(compression):
        bare = opener(file)
    else:
        import pyarrow as pa  # Not above: the plan imports this module.

        bare = pa.CompressedInputStream(file, compression)
    try:
        with bare, io.BufferedReader(bare, _BUFFER) as stream:
            yield stream
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None):
            raise
        raise MlmError(
            f"{file.name}: the {compression} data is cut off or damaged ({error}). Fetch or "
            "compress the file again"
        ) from None


def clean(text: str) -> tuple[str, Encoding]:
    """Return `text` with U+FFFD in place of lone surrogates (invalid bytes) and NULs and without
    the byte-order marks at the start of lines, which joined files have; and the counts of these."""
    if not _may_be_unclean(text):
        return text, UNCHANGED
    nuls = text.count("\0")
    text, replaced = _SURROGATE.subn(_REPLACEMENT, text.replace("\0", _REPLACEMENT))
    text, marks = _MARK.subn("", text)
    return text, Encoding(replaced, nuls, marks)


def prepared(text: str, normalisation: Normalisation) -> tuple[str, Encoding]:
    """Return `text` cleaned and in the Unicode form `normalisation`, and what `clean` replaced."""
    cleaned, encoding = clean(text)
    # ASCII is in every normalisation form already.
    if normalisation != "none" and not cleaned.isascii():
        cleaned = unicodedata.normalize(normalisation, cleaned)
    return cleaned, encoding


def _may_be_unclean(text: str) -> bool:
    if text.isascii():
        return "\0" in text
    return bool(_UNCLEAN.search(text)) or BYTE_ORDER_MARK in text


def refuse_unclean(text: str, where: str) -> None:
    """Raise MlmError if `text` has a NUL or a lone surrogate, as escapes in JSON write them."""
    if _may_be_unclean(text) and (match := _UNCLEAN.search(text)):
        raise MlmError(
            f"{where}: a NUL or lone surrogate (U+{ord(match[0]):04X}) at character "
            f"{match.start()}, which no text holds.{_ADVICE}"
        )


def text_lines(stream: BinaryIO, name: str, strict: bool) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of the file `name`, its end (LF) included.

    Raises MlmError for lines over LONGEST_DOCUMENT, and if `strict` for invalid bytes and NULs.
    """
    errors = "strict" if strict else "surrogateescape"
    offset, number = 0, 1
    while line := stream.readline(LONGEST_DOCUMENT + 1):
        if len(line) > LONGEST_DOCUMENT:
            raise too_long(name, number, "line")
        if offset == 0 and line.startswith(codecs.BOM_UTF8):
            line, offset = line[3:], 3
        try:
            text = line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise MlmError(
                f"{name}, line {number}, byte offset {offset + error.start}: byte "
                f"0x{line[error.start]:02x} is not UTF-8 ({error.reason}). Convert other files "
                f"(iconv -f latin1 -t utf-8 FILE > converted).{_ADVICE}"
            ) from None
        if strict and "\0" in text:
            position = offset + line.index(0)
            raise MlmError(f"{name}, line {number}, byte offset {position}: a NUL byte.{_ADVICE}")
        yield number, text
        offset, number = offset + len(line), number + 1


def too_long(name: str, line: int, what: str) -> MlmError:
    """Return the error for a document that no stage could hold in memory."""
    return MlmError(
        f"{name}: the {what} that starts in line {line} is longer than "
        f"{LONGEST_DOCUMENT >> 20} MiB. A document must fit into memory: break the text into "
        "lines, or choose another corpus.files.document_per"
    )


def table_rows(lines: Iterable[str], name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the file `name` that are not blank, the header first, each with the number
    of its first line.

    Of tabs, each line is a row, and quotes around a whole field are left out. Of commas, a field in
    double quotes may have several lines (RFC 4180); MlmError for a quote that does not fit.
    """
    if separator == "\t":
        for number, line in enumerate(lines, 1):
            if row := line.removesuffix("\n").removesuffix("\r"):
                yield number, list(map(_unquoted, row.split("\t")))
        return
    csv.field_size_limit(LONGEST_DOCUMENT)
    rows, start = csv.reader(lines, strict=True), 1
    try:
        for row in rows:
            if row:
                yield start, row
            start = rows.line_num + 1
    except csv.Error as error:
        raise MlmError(f"{name}, line {start}: {error}. {QUOTES_ADVICE}") from None


def _unquoted(field: str) -> str:
    """Return a field without the quotes around it; others are part of it."""
    inner = field[1:-1]
    if len(field) < 2 or field[0] + field[-1] != '""' or '"' in inner.replace('""', ""):
        return field
    return inner.replace('""', '"')

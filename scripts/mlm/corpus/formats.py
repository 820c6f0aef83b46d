"""Readers of the file formats that documents come in: one iterator of documents each.

Each raises MlmError with file and line (or row) for what it cannot read. A missing value
(null) is an empty text, which the filters count. With `errors` replace, undecodable bytes
stand in the texts as lone surrogates and NULs as they are, for `decoding.clean`.
"""

import csv
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from mlm.corpus.decoding import (
    FILE_BEGIN,
    LONGEST_DOCUMENT,
    UTF_8,
    Place,
    block_lines,
    byte_blocks,
    check_text,
    decode,
    text_lines,
    too_long,
)
from mlm.corpus.document_begins import BoundedStream, document_begin, line_feeds_before
from mlm.corpus.groups import Document, document_of, group_name
from mlm.foundations.errors import MlmError

_ROWS = 1024


def _number(digits: str) -> int | float:
    """The whole number that `digits` write, as orjson has it: of 64 bits at most."""
    value = int(digits) if len(digits) <= 20 else 1 << 64
    return value if -(1 << 63) <= value < 1 << 64 else float(digits)


_STRICT, _LENIENT = (json.JSONDecoder(strict=s, parse_int=_number) for s in (True, False))


@dataclass(frozen=True)
class Reading:
    """How files are read: the settings of the section `corpus` of the same names."""

    text_column: str
    errors: str
    encoding: str = UTF_8
    document_per: str = "line"
    quoted_fields: bool = True
    group_by: str | None = None

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that are read: of the text, and of the group where there is one."""
        return frozenset(filter(None, (self.text_column, self.group_by)))


def read_documents(
    stream: BinaryIO, name: str, file_format: str, reading: Reading
) -> Iterator[Document]:
    """The documents in `stream`, in order; `name` is the file's name for messages."""
    return _READERS[file_format](stream, name, reading)


def read_range(
    handle: BinaryIO, name: str, file_format: str, reading: Reading, start: int, stop: int
) -> Iterator[Document]:
    """The documents that begin in bytes `start` to `stop` of a .txt, .jsonl or .parquet file.

    Of Parquet, those of the row groups that do. Ranges that follow each other give each document
    once, and messages name places as in the whole file.
    """
    if file_format == "parquet":
        yield from _parquet_rows(handle, name, reading, (start, stop))
        return
    per = reading.document_per if file_format == "txt" else "line"
    begin, end = (document_begin(handle, p, per, reading.encoding) for p in (start, stop))

    def documents(line: int) -> Iterator[Document]:
        handle.seek(begin)
        bounded = BoundedStream(handle, end - begin)
        return _READERS_OF_LINES[file_format](bounded, name, reading, Place(begin, line))

    try:
        yield from documents(1)
    except MlmError:
        if begin:
            # The lines before are counted only where a message is to name one.
            for _ in documents(1 + line_feeds_before(handle, begin)):
                pass
        raise


def _text_documents(
    stream: BinaryIO, name: str, reading: Reading, place: Place = FILE_BEGIN
) -> Iterator[Document]:
    return map(Document, _texts(stream, name, reading, place))


def _texts(stream: BinaryIO, name: str, reading: Reading, place: Place) -> Iterator[str]:
    lines = text_lines(stream, name, reading.errors, reading.encoding, place=place)
    if reading.document_per == "line":
        yield from lines
        return
    whole_file = reading.document_per == "file"
    gathered, size, start = [], 0, place.line
    for number, line in enumerate(lines, place.line):
        if whole_file or not (line.isspace() or not line):
            start = start if gathered else number
            gathered.append(line)
            size += len(line) + 1
            if size > LONGEST_DOCUMENT:
                raise too_long(name, start, reading.document_per)
        elif gathered:
            yield "\n".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield "\n".join(gathered).rstrip("\n")


def _json_documents(
    stream: BinaryIO, name: str, reading: Reading, place: Place = FILE_BEGIN
) -> Iterator[Document]:
    column, group_by = reading.text_column, reading.group_by
    for number, record in _json_records(stream, name, reading, place):
        if not isinstance(record, dict):
            raise MlmError(
                f"{name}, line {number}: {_type_name(record)}, expected an object with the field "
                f"{column!r}"
            )
        if column not in record or (group_by is not None and group_by not in record):
            check_columns(f"{name}, line {number}", sorted(record), reading)
        text, group = record[column], None
        # What nearly all are, without a call for each.
        if not (isinstance(text, str) and text.isascii() and "\0" not in text):
            text = _text_value(text, f"{name}, line {number}", reading)
        if group_by is not None:
            group = _group(record[group_by], f"{name}, line {number}", reading)
        yield document_of((text, group))


def _json_records(
    stream: BinaryIO, name: str, reading: Reading, place: Place
) -> Iterator[tuple[int, object]]:
    """The number and the value of each line that is not blank."""
    for block in byte_blocks(stream, name, reading.encoding, place):
        texts = None
        # orjson is strict in all things, and takes UTF-8 alone.
        if reading.encoding == UTF_8:
            lines = block.data.removesuffix(b"\n").split(b"\n")
        else:
            texts = block_lines(block, name, reading.errors, reading.encoding)
            lines = [b""] * len(texts)
        for row, line in enumerate(lines):
            number = block.place.line + row
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                # Bad bytes, a blank line, NaN, half a pair of surrogates: what Python says of it.
                if texts is None:
                    texts = block_lines(block, name, reading.errors, reading.encoding)
                if not texts[row] or texts[row].isspace():
                    continue
                record = _decoded(texts[row], name, number, reading)
            yield number, record


def _decoded(line: str, name: str, number: int, reading: Reading) -> object:
    """The value that a line writes in JSON, or in what Python takes for JSON, such as NaN."""
    # A raw NUL is not JSON; the policy `replace` lets it pass to be replaced.
    decoder = _LENIENT if "\0" in line else _STRICT
    try:
        return decoder.decode(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise MlmError(
            f"{name}, line {number}: no valid JSON ({error}). Expected one object a line, such "
            f'as {{"{reading.text_column}": "..."}}'
        ) from None


def _separated_documents(separator: str) -> Callable[[BinaryIO, str, Reading], Iterator[Document]]:
    def documents(stream: BinaryIO, name: str, reading: Reading) -> Iterator[Document]:
        csv.field_size_limit(LONGEST_DOCUMENT)
        rows = csv.reader(
            text_lines(stream, name, reading.errors, reading.encoding, keep_ends=True),
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if reading.quoted_fields else csv.QUOTE_NONE,
            strict=True,
        )
        try:
            header = next(rows, [])
            check_columns(f"{name}, line 1", header, reading)
            column = header.index(reading.text_column)
            group = header.index(reading.group_by) if reading.group_by else None
            for row in rows:
                if row and len(row) != len(header):
                    raise MlmError(
                        f"{name}, line {rows.line_num}: {len(row)} fields, but the header names "
                        f"{len(header)}. {_QUOTES_ADVICE}"
                    )
                if row and group is None:
                    yield Document(row[column])
                elif row:
                    where = f"{name}, line {rows.line_num}"
                    yield Document(row[column], _group(row[group], where, reading))
        except csv.Error as error:
            raise MlmError(f"{name}, line {rows.line_num}: {error}. {_QUOTES_ADVICE}") from None

    return documents


_QUOTES_ADVICE = (
    "A field that holds the separator, a line end, a carriage return or a double quote stands in "
    "double quotes, and a double quote in it is doubled; where quotes are ordinary characters, set "
    "corpus.files.quoted_fields to false"
)


def _parquet_documents(stream: BinaryIO, name: str, reading: Reading) -> Iterator[Document]:
    if hasattr(stream, "seekable"):
        yield from _parquet_rows(stream, name, reading)
        return
    # Parquet is read from its end, so a compressed file is unpacked to disk first.
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(stream, unpacked, 1 << 20)
        yield from _parquet_rows(unpacked, name, reading)


def _parquet_rows(
    handle: BinaryIO, name: str, reading: Reading, begin_in: tuple[int, int] | None = None
) -> Iterator[Document]:
    """The documents of a Parquet file: of the row groups that begin in `begin_in`, or of all."""
    try:
        file = pq.ParquetFile(handle, buffer_size=1 << 20)
        schema = file.schema_arrow
        check_columns(name, schema.names, reading)
        check_column_type(schema.field(reading.text_column).type, name, reading.text_column)
        groups, row = list(range(file.num_row_groups)), 0
        if begin_in is not None:
            begins = [_begin(file.metadata.row_group(group)) for group in groups]
            before = [group for group in groups if begins[group] < begin_in[0]]
            row = sum(file.metadata.row_group(group).num_rows for group in before)
            groups = [group for group in groups if begin_in[0] <= begins[group] < begin_in[1]]
        columns = sorted(reading.columns)
        for batch in file.iter_batches(_ROWS, groups, columns, use_threads=False):
            yield from batch_documents(batch, name, row, reading)
            row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise MlmError(f"{name}: no whole parquet file ({error}). Fetch it again") from None


def _begin(group: pq.RowGroupMetaData) -> int:
    """The byte of the file at which a row group begins."""
    columns = [group.column(number) for number in range(group.num_columns)]
    places = [(c.dictionary_page_offset, c.data_page_offset) for c in columns]
    return min(place for pair in places for place in pair if place is not None)


def check_column_type(kind: pa.DataType, name: str, column: str) -> None:
    """Raise MlmError unless the column's type `kind` is one of text."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    if not any(is_kind(value) for is_kind in text):
        raise MlmError(
            f"{name}: the column {column!r} is of type {kind}, expected string. Name another "
            "one in corpus.text_column, or convert it"
        )


def batch_documents(
    batch: pa.RecordBatch, name: str, first_row: int, reading: Reading
) -> Iterator[Document]:
    """The documents of an Arrow batch whose first row is row `first_row` of `name`."""
    texts = _values(batch.column(reading.text_column))
    groups = _values(batch.column(reading.group_by)) if reading.group_by else [None] * len(texts)
    for row, (text, group) in enumerate(zip(texts, groups, strict=True), first_row + 1):
        where = f"{name}, row {row}"
        text, group = (
            decode(v, where, 1, 0, reading.errors) if isinstance(v, bytes) else v
            for v in (text, group)
        )
        yield Document(_text_value(text, where, reading), _group(group, where, reading))


def _values(column: pa.Array) -> list:
    """An Arrow column's values; text that is not UTF-8 as bytes."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column.cast(pa.large_binary(), safe=False).to_pylist()


def _group(value: object, where: str, reading: Reading) -> str | None:
    """The name of a row's group; None where no column was named."""
    if reading.group_by is None:
        return None
    return group_name(value, where, reading.group_by, reading.errors)


def _text_value(value: object, where: str, reading: Reading) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MlmError(
            f"{where}: {reading.text_column!r} holds {_type_name(value)}, expected text. A column "
            "of text must hold text in every row (or null, which counts as empty)"
        )
    if reading.errors == "strict":
        check_text(value, where)
    return value


def check_columns(where: str, found: list[str], reading: Reading) -> None:
    """Raise MlmError unless each column that is read stands among `found`, and once."""
    for column, holds, key in (
        (reading.text_column, "the text", "corpus.text_column"),
        (reading.group_by, "the group", "corpus.group_by"),
    ):
        if column is None:
            continue
        if column not in found:
            known = ", ".join(map(repr, found[:20])) or "none"
            raise MlmError(
                f"{where}: no column {column!r}; there are: {known}. Name the column of {holds} "
                f"in {key}"
            )
        if found.count(column) > 1:
            raise MlmError(
                f"{where}: {found.count(column)} columns are called {column!r}, so that which "
                f"holds {holds} cannot be told. Rename one of them"
            )


def _type_name(value: object) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", int: "a number"}
    return names.get(type(value), "a number" if isinstance(value, float) else "text")


_READERS_OF_LINES = {"txt": _text_documents, "jsonl": _json_documents}
_READERS = {
    **_READERS_OF_LINES,
    "csv": _separated_documents(","),
    "tsv": _separated_documents("\t"),
    "parquet": _parquet_documents,
}

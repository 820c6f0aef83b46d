"""Readers of documents, by the format of a file (null is an empty text). Each raises MlmError with
file and line (or row) for what it cannot read."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from mlm.config.corpus import Corpus
from mlm.corpus.bytes_to_text import (
    BYTE_ORDER_MARK,
    LONGEST_DOCUMENT,
    QUOTES_ADVICE,
    decompressed,
    refuse_unclean,
    table_rows,
    text_lines,
    too_long,
)
from mlm.corpus.groups_and_splits import Document, group_name
from mlm.corpus.source_files import file_format
from mlm.foundations.errors import MlmError

#: Rows of a table that are read together.
_ROWS = 128
_JQ = ". Of an array, jq -c '.[]' FILE > FILE.jsonl makes one object a line"


def documents_of_file(path: str, settings: Corpus) -> Iterator[Document]:
    """Yield the documents of the file `path`, whose name tells its format, in order."""
    kind, compression = file_format(path)
    with open(path, "rb") as file, decompressed(file, compression) as stream:
        yield from read_documents(stream, path, kind, settings)


def read_documents(
    stream: BinaryIO, name: str, file_format: str, settings: Corpus
) -> Iterator[Document]:
    """Yield the documents in `stream`, in order; messages call the file `name`."""
    yield from _READERS[file_format](stream, name, settings)


def _text_documents(stream: BinaryIO, name: str, settings: Corpus) -> Iterator[Document]:
    per = settings.files.document_per
    gathered, size, start = [], 0, 1
    for number, line in text_lines(stream, name, _is_strict(settings)):
        text = line.removesuffix("\n").removesuffix("\r")
        if per == "line":
            yield Document(text)
        elif per == "file" or line.strip():
            start = start if gathered else number
            gathered.append(text)
            size += len(line)
            if size > LONGEST_DOCUMENT:
                raise too_long(name, start, per)
        elif gathered:
            yield Document("\n".join(gathered))
            gathered, size = [], 0
    if gathered:
        yield Document("\n".join(gathered).rstrip("\n"))


def _json_documents(stream: BinaryIO, name: str, settings: Corpus) -> Iterator[Document]:
    for number, line in text_lines(stream, name, _is_strict(settings)):
        where = f"{name}, line {number}"
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            # A blank line, or NaN or half a pair of surrogates, which Python takes for JSON.
            line = line.removeprefix(BYTE_ORDER_MARK)
            if line.isspace():
                continue
            record = _decoded(line, where, settings.text_column)
        yield _json_document(record, where, settings)


def _json_document(record: object, where: str, settings: Corpus) -> Document:
    if not isinstance(record, dict):
        raise MlmError(
            f"{where}: {_type_name(record)}, expected an object with the field "
            f"{settings.text_column!r}{_JQ if isinstance(record, list) else ''}"
        )
    if not {settings.text_column, settings.group_by or settings.text_column} <= record.keys():
        check_columns(where, sorted(record), settings)
    return _document(record, where, settings)


def _decoded(line: str, where: str, column: str) -> object:
    try:
        # A raw NUL is not JSON; the policy `replace` lets it pass to be replaced.
        return json.loads(line, strict="\0" not in line)
    except (ValueError, RecursionError) as error:
        raise MlmError(
            f"{where}: no valid JSON ({error}). Expected one object a line, such as "
            f'{{"{column}": "..."}}{_JQ if line.lstrip().startswith(("[", "{")) else ""}'
        ) from None


def _separated_documents(
    separator: str, stream: BinaryIO, name: str, settings: Corpus
) -> Iterator[Document]:
    rows = table_rows(
        (line for _, line in text_lines(stream, name, _is_strict(settings))), name, separator
    )
    _, header = next(rows, (1, []))
    check_columns(f"{name}, line 1", header, settings)
    for number, row in rows:
        where = f"{name}, line {number}"
        if len(row) != len(header):
            advice = QUOTES_ADVICE if separator == "," else "Write a line for each row"
            raise MlmError(
                f"{where}: {len(row)} fields, but the header names {len(header)}. {advice}"
            )
        yield _document(dict(zip(header, row, strict=True)), where, settings)


def _parquet_documents(stream: BinaryIO, name: str, settings: Corpus) -> Iterator[Document]:
    try:
        check_columns(name, pq.read_schema(stream).names, settings)
        columns = sorted({settings.text_column, settings.group_by} - {None})
        file, row = pq.ParquetFile(stream, buffer_size=1 << 20), 0
        for number in range(file.num_row_groups):
            for batch in file.iter_batches(_ROWS, [number], columns, use_threads=False):
                yield from batch_documents(batch, name, row, settings)
                row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise MlmError(f"{name}: no whole parquet file ({error}). Fetch it again") from None


_READERS: dict[str, Callable[[BinaryIO, str, Corpus], Iterator[Document]]] = {
    "txt": _text_documents,
    "jsonl": _json_documents,
    "json": _json_documents,
    "csv": partial(_separated_documents, ","),
    "tsv": partial(_separated_documents, "\t"),
    "parquet": _parquet_documents,
}


def batch_documents(
    batch: pa.RecordBatch | pa.Table, name: str, first_row: int, settings: Corpus
) -> Iterator[Document]:
    """Yield the documents of Arrow data whose first row is row `first_row` of `name`."""
    try:
        records = batch.to_pylist()
    except UnicodeDecodeError as error:
        rows = f"rows {first_row + 1} to {first_row + batch.num_rows}"
        raise MlmError(f"{name}, {rows}: a text is not UTF-8 ({error}). Write it anew") from None
    for row, record in enumerate(records, first_row + 1):
        yield _document(record, f"{name}, row {row}", settings)


def _document(record: Mapping[str, Any], where: str, settings: Corpus) -> Document:
    """Return the document of a row or an object that has the columns."""
    by, text = settings.group_by, record[settings.text_column]
    group = None if by is None else group_name(record[by], where, settings)
    if text is None:
        return Document("", group)
    if not isinstance(text, str):
        raise MlmError(
            f"{where}: {settings.text_column!r} holds {_type_name(text)}, expected text. A column "
            "of text must hold text in every row (or null, which counts as empty)"
        )
    if _is_strict(settings):
        refuse_unclean(text, where)
    return Document(text, group)


def _is_strict(settings: Corpus) -> bool:
    return settings.encoding_errors == "strict"


def _type_name(value: object) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", str: "text"}
    names |= dict.fromkeys((int, float), "a number")
    return names.get(type(value), type(value).__name__)


def check_columns(where: str, names: list[str], settings: Corpus) -> None:
    """Raise MlmError unless each column that is read is among `names`, once."""
    for key in ("text_column", "group_by"):
        column = getattr(settings, key)
        if column is None or names.count(column) == 1:
            continue
        if column in names:
            raise MlmError(
                f"{where}: {names.count(column)} columns are called {column!r}. Rename one of them"
            )
        known = ", ".join(map(repr, names[:20])) or "none"
        raise MlmError(
            f"{where}: no column {column!r}; there are: {known}. Name one of them in corpus.{key}"
        )

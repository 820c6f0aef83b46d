"""Rows of tables whose fields are separated by commas or tabs, with quotes (RFC 4180)."""

import csv
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from mlm.corpus.decoding import LONGEST_DOCUMENT
from mlm.foundations.errors import MlmError

QUOTES_ADVICE = (
    "A field that holds the separator, a line end, a carriage return or a double quote must be in "
    "double quotes, and a double quote in it is doubled"
)


class _StrayQuote(Exception):
    """Raised if the lines of a quoted field are whole rows."""


def table_rows(
    lines: Iterable[tuple[int, str]],
    name: str,
    separator: str,
    remedy: str = "",
    quoted: bool = True,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, the header first, each with the number of its first line.

    `lines` of the file `name` come with their numbers and ends; `remedy` follows the advice on
    quotes. A stray quote must not join rows. In a table of tabs, a line with the header's number of
    fields is a row, and its quotes are text if they do not fit. In one of commas, MlmError is
    raised for them, and at the end for a quoted field whose lines all have that number of fields,
    unless the table has other fields of several lines; then it is a warning.
    """
    csv.field_size_limit(LONGEST_DOCUMENT)
    lines, width, joined, is_meant, is_noted = iter(lines), 0, "", False, False
    consumed: list[tuple[int, str]] = []

    def are_rows() -> bool:
        # In a single column of commas, any line end may be meant.
        return width > (separator != "\t") and all(
            line.count(separator) == width - 1 for _, line in consumed
        )

    def recorded() -> Iterator[str]:
        for numbered in lines:
            consumed.append(numbered)
            if separator == "\t" and len(consumed) > 1 and are_rows():
                raise _StrayQuote
            yield numbered[1]

    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = partial(csv.reader, delimiter=separator, quoting=quoting, strict=True)
    rows = reader(recorded())
    while True:
        consumed.clear()
        try:
            row = next(rows, None)
        except (_StrayQuote, csv.Error) as error:
            where = f"{name}, line {consumed[0][0]}"
            if separator != "\t" or not are_rows():
                raise MlmError(f"{where}: {error}. {QUOTES_ADVICE}{remedy}") from None
            if not is_noted:
                print(f"Note: {where}: a double quote is taken as text", file=sys.stderr)
            is_noted, lines = True, chain(consumed[1:], lines)
            del consumed[1:]
            rows, fields = reader(recorded()), consumed[0][1].rstrip("\r\n").split(separator)
            row = [_unquoted(field) for field in fields]
        if row is None:
            break
        if row:
            yield consumed[0][0], row
        width = width or len(row)
        if len(consumed) > 1:
            numbers = f"{consumed[0][0]} to {consumed[-1][0]}"
            is_meant |= not are_rows()
            joined = joined or (numbers if are_rows() else "")
    if joined:
        stray = (
            f"{name}, lines {joined}: one quoted field, though each of these lines has the "
            f"{width - 1} separators of a row, as if a double quote were stray"
        )
        if not is_meant:
            advice = f"{QUOTES_ADVICE}{remedy}. If it is one field, give a .jsonl file"
            raise MlmError(f"{stray}. {advice}")
        print(f"Warning: {stray}", file=sys.stderr)


def _unquoted(field: str) -> str:
    """Return a field without the quotes around it; others are part of it."""
    inner = field[1:-1]
    if len(field) < 2 or field[0] + field[-1] != '""' or '"' in inner.replace('""', ""):
        return field
    return inner.replace('""', '"')

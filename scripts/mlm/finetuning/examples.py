"""Labelled passages for fine-tuning: what one is, and the table that the folds are read from."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlm.foundations.atomic import write_csv
from mlm.foundations.errors import MlmError

COLUMNS = ("id", "excerpt", "target", "group", "split", "fold")

#: csv's own limit of 131,072 characters a field is lower than a long document.
_FIELD_LIMIT = 2**30
#: Twice this, squared, is still a float32.
_LARGEST_TARGET = 9.0e18


@dataclass(frozen=True)
class Example:
    """One passage. `target` is a number as text, or a class's name.

    `group` holds together what must not be divided between folds (empty: the example alone);
    `split` is the pretraining split that the text stood in, empty where that is unknown.
    """

    id: str
    excerpt: str
    target: str
    group: str = ""
    split: str = ""

    @property
    def unit(self) -> str:
        """What is resampled, and dealt into folds, as a whole."""
        return f"group {self.group}" if self.group else f"id {self.id}"


def write_examples(path: str | Path, examples: Sequence[Example], folds: Sequence[int]) -> None:
    """Write the examples with their folds as CSV, atomically."""
    rows = (
        (e.id, e.excerpt, e.target, e.group, e.split, fold)
        for e, fold in zip(examples, folds, strict=True)
    )
    write_csv(path, COLUMNS, rows)


def read_examples(path: str | Path) -> tuple[list[Example], list[int]]:
    """The examples and the fold of each, as `write_examples` left them."""
    csv.field_size_limit(_FIELD_LIMIT)
    with open(path, encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise MlmError(
                f"{path}: columns {', '.join(COLUMNS)} were expected, found "
                f"{', '.join(reader.fieldnames or ()) or 'none'}. Delete it and run again"
            )
        rows = list(reader)
    keys = ("id", "excerpt", "target", "group", "split")
    return [Example(*(row[k] for k in keys)) for row in rows], [int(row["fold"]) for row in rows]


@dataclass(frozen=True)
class LabelledCsv:
    """A CSV file of one's own and the columns that are read from it; others are ignored."""

    file: str
    id: str
    text: str
    target: str
    group: str | None


def read_labelled_csv(layout: LabelledCsv, task: str) -> list[Example]:
    """The examples of a CSV file, in its order; `task` is "regression" or "classification".

    Raises MlmError that names the row (1 is the first after the header), the line that it begins
    in and the column: a column that is missing or there twice, cells too many or too few, a quote
    that nothing closes, an empty passage, an id given twice, a target that is empty or, for a
    regression, no finite number whose square fits float32.
    """
    columns = [layout.id, layout.text, layout.target, *([layout.group] if layout.group else [])]
    rows = _rows(layout.file)
    header = next(rows, (1, []))[1]
    _check_header(layout.file, header, columns)
    places = [header.index(column) for column in columns]
    examples, seen = [], {}
    for number, (line, row) in enumerate(rows, start=1):
        where = f"{layout.file}, row {number} (line {line})"
        _check_cells(where, header, row)
        name, excerpt, target, *group = (row[place].strip() for place in places)
        if not name:
            raise MlmError(f"{where}, column {layout.id!r}: empty; every row needs an id")
        if name in seen:
            raise MlmError(
                f"{where}, column {layout.id!r}: {name!r} is the id of row {seen[name]} already"
            )
        if not excerpt:
            raise MlmError(f"{where}, column {layout.text!r}: the passage is empty")
        _check_target(target, task, f"{where}, column {layout.target!r}")
        if group == [""]:
            raise MlmError(f"{where}, column {layout.group!r}: empty; every row needs its group")
        seen[name] = number
        examples.append(Example(name, excerpt, target, *group))
    if not examples:
        raise MlmError(f"{layout.file}: no row below the header")
    return examples


def _rows(file: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the line that it begins in, from 1 on."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MlmError(f"finetune.data.file: {file} does not exist") from None
    except UnicodeDecodeError as error:
        raise MlmError(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 0
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            where = f"row {number} (line {line})" if number else "header"
            raise MlmError(
                f"{file}, {where}: a quote is not closed, or stands inside a cell ({error}, line "
                f"{reader.line_num}). Close it, and write a quote inside quotes twice"
            ) from None
        if row is None:
            return
        if row:
            yield line, row
            number += 1


def _check_header(file: str, header: list[str], columns: list[str]) -> None:
    found = ", ".join(map(repr, header)) or "an empty file"
    if missing := [column for column in columns if column not in header]:
        raise MlmError(
            f"{file}: column {', '.join(map(repr, missing))} missing; found: {found}. Name the "
            "columns in finetune.data"
        )
    if twice := [column for column in columns if header.count(column) > 1]:
        raise MlmError(
            f"{file}: {header.count(twice[0])} columns are named {twice[0]!r}; found: {found}. "
            "Rename all but the one that is meant"
        )


def _check_cells(where: str, header: list[str], row: list[str]) -> None:
    expected = f"{len(row)} cells, and the header has {len(header)}"
    if len(row) > len(header):
        raise MlmError(
            f"{where}: {expected}. Put a cell that holds a comma into double quotes; the first "
            f"one too many is {row[len(header)]!r}"
        )
    if len(row) < len(header):
        raise MlmError(f"{where}: {expected}; {header[len(row)]!r} has no cell")


def _check_target(target: str, task: str, where: str) -> None:
    if not target:
        raise MlmError(f"{where}: the target is empty")
    if task != "regression":
        return
    try:
        number = float(target)
    except ValueError:
        raise MlmError(
            f"{where}: {target!r} is not a number. For classes, set finetune.task: classification"
        ) from None
    if not math.isfinite(number):
        raise MlmError(f"{where}: {target!r} is not a finite number; fill it in or drop the row")
    if abs(number) > _LARGEST_TARGET:
        raise MlmError(
            f"{where}: {target!r} is too large: the loss is its square in float32, which ends at "
            "3.4e38. Scale the targets, best to a standard deviation near 1"
        )

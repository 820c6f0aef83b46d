"""Labelled passages for fine-tuning: what one is, and the table that the folds are read from."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlm.atomic import write_text
from mlm.errors import MlmError

COLUMNS = ("id", "excerpt", "target", "group", "split", "fold")

#: csv's own limit of 131,072 characters a field is lower than a long document.
_FIELD_LIMIT = 2**30


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for e, fold in zip(examples, folds, strict=True):
        writer.writerow([e.id, e.excerpt, e.target, e.group, e.split, fold])
    write_text(path, text.getvalue())


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

    Raises MlmError that names the row (1 is the first after the header) and the column:
    a column that is missing, an empty passage, an id given twice, a target that is empty or,
    for a regression, no finite number.
    """
    try:
        text = Path(layout.file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MlmError(f"finetune.data.file: {layout.file} does not exist") from None
    except UnicodeDecodeError as error:
        raise MlmError(
            f"{layout.file}: byte {error.start} is no UTF-8; save the file as UTF-8"
        ) from None
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    columns = [layout.id, layout.text, layout.target, *([layout.group] if layout.group else [])]
    missing = [c for c in columns if c not in (reader.fieldnames or ())]
    if missing:
        raise MlmError(
            f"{layout.file}: column {', '.join(map(repr, missing))} missing; found: "
            f"{', '.join(map(repr, reader.fieldnames or ())) or 'an empty file'}. Name the columns "
            "in finetune.data"
        )
    examples, rows = [], {}
    for number, row in enumerate(reader, start=1):
        where = f"{layout.file}, row {number}"
        cells = [row[c] for c in columns]
        if None in cells:
            column = columns[cells.index(None)]
            raise MlmError(f"{where}: too few columns; {column!r} has no cell")
        name, excerpt, target = (cell.strip() for cell in cells[:3])
        if not name:
            raise MlmError(f"{where}, column {layout.id!r}: empty; every row needs an id")
        if name in rows:
            raise MlmError(
                f"{where}, column {layout.id!r}: {name!r} is the id of row {rows[name]} already"
            )
        if not excerpt:
            raise MlmError(f"{where}, column {layout.text!r}: the passage is empty")
        _check_target(target, task, f"{where}, column {layout.target!r}")
        rows[name] = number
        group = cells[3].strip() if layout.group else ""
        if layout.group and not group:
            raise MlmError(f"{where}, column {layout.group!r}: empty; every row needs its group")
        examples.append(Example(name, excerpt, target, group))
    if not examples:
        raise MlmError(f"{layout.file}: no row below the header")
    return examples


def _check_target(target: str, task: str, where: str) -> None:
    if not target:
        raise MlmError(f"{where}: the target is empty")
    if task != "regression":
        return
    try:
        number = float(target)
    except ValueError:
        raise MlmError(
            f"{where}: {target!r} is no number. For classes, set finetune.task: classification"
        ) from None
    if not math.isfinite(number):
        raise MlmError(f"{where}: {target!r} is no finite number; fill it in or drop the row")

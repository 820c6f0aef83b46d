"""The labelled passages of a fine-tuning, and the table that its jobs read them from."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlm.foundations.atomic import write_csv
from mlm.foundations.errors import MlmError

COLUMNS = ("id", "excerpt", "target", "group", "split", "fold")
#: csv's own limit of 131,072 characters a field is lower than a long document.
FIELD_LIMIT = 2**30


@dataclass(frozen=True)
class Example:
    """One passage. `target` is a number as text, or the name of a class.

    Folds keep a `group` together (empty: the example alone). `split` is the pretraining split that
    holds the text, empty if unknown.
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


def classes_of(examples: Sequence[Example], task: str) -> list[str]:
    """The names of the classes in ascending order; none for a regression."""
    return sorted({e.target for e in examples}) if task == "classification" else []


def write_examples(path: str | Path, examples: Sequence[Example], folds: Sequence[int]) -> None:
    """Write the examples with their folds as CSV, atomically."""
    rows = (
        (e.id, e.excerpt, e.target, e.group, e.split, fold)
        for e, fold in zip(examples, folds, strict=True)
    )
    write_csv(path, COLUMNS, rows)


def read_examples(path: str | Path) -> tuple[list[Example], list[int]]:
    """The examples of `write_examples`, and the fold of each."""
    csv.field_size_limit(FIELD_LIMIT)
    with open(path, encoding="utf-8", newline="") as handle:
        header, *rows = list(csv.reader(handle)) or [[]]
    if tuple(header) != COLUMNS:
        raise MlmError(
            f"{path}: columns {', '.join(COLUMNS)} were expected, found "
            f"{', '.join(header) or 'none'}. Delete it and run again"
        )
    return [Example(*row[:-1]) for row in rows], [int(row[-1]) for row in rows]

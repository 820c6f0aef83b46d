"""The CSV tables of a fine-tuning: examples, predictions (oof.csv), and epochs (history.csv)."""

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from mlm.foundations.atomic import write_csv

# csv's own limit of 131,072 characters a field is lower than a long document.
csv.field_size_limit(2**30)


@dataclass(frozen=True)
class Example:
    """One passage, held out in `fold`. `target` is a number as text, or the name of a class.

    Folds keep a `group` together (empty: the example alone). `split` is the pretraining split that
    holds the text, empty if unknown.
    """

    id: str
    excerpt: str
    target: str
    group: str = ""
    split: str = ""
    fold: int = 0

    @property
    def unit(self) -> str:
        """What is resampled, and dealt into folds, as a whole: the group, else equal texts."""
        return f"group {self.group}" if self.group else f"text {self.excerpt}"


@dataclass(frozen=True)
class Prediction:
    """The predictions of every training for an example: a class by its name, a number as text."""

    id: str
    fold: int
    target: str
    predictions: tuple[str, ...]


@dataclass(frozen=True)
class EpochRow:
    """An epoch of a fold's training number `seed`."""

    fold: int
    seed: int
    epoch: int
    train_loss: float
    validation_loss: float
    score: float


def classes_of(examples: Sequence[Example], task: str) -> list[str]:
    """The names of the classes in ascending order; none for a regression."""
    return sorted({e.target for e in examples}) if task == "classification" else []


def write_rows(path: str | Path, rows: Sequence[Example] | Sequence[EpochRow]) -> None:
    """Write examples or epochs as CSV, floats with six decimal places, atomically."""
    cells = [[f"{v:.6f}" if type(v) is float else v for v in astuple(row)] for row in rows]
    write_csv(path, [field.name for field in fields(rows[0])], cells)


def read_rows(path: str | Path, kind: type) -> list:
    """The examples or epochs that `write_rows` wrote, of that `kind`."""
    types = [field.type for field in fields(kind)]
    return [kind(*(t(v) for t, v in zip(types, row, strict=True))) for row in _rows(path)]


def write_predictions(path: str | Path, rows: Sequence[Prediction]) -> None:
    """Write the predictions as CSV: of several trainings as `prediction`, `prediction_1`, …"""
    columns = ["id", "fold", "target", "prediction"]
    columns += [f"prediction_{i}" for i in range(1, len(rows[0].predictions))]
    write_csv(path, columns, [[r.id, r.fold, r.target, *r.predictions] for r in rows])


def read_predictions(path: str | Path) -> list[Prediction]:
    """The predictions of every training."""
    return [
        Prediction(name, int(fold), target, tuple(said))
        for name, fold, target, *said in _rows(path)
    ]


def _rows(path: str | Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.reader(handle))[1:]

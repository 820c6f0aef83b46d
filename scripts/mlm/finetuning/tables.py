"""The CSV tables of a fine-tuning: examples, predictions (oof.csv), and epochs (history.csv)."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

from mlm.foundations.atomic import write_csv
from mlm.foundations.digests import value_sha256
from mlm.foundations.errors import MlmError, reading, remedy

# csv's own limit of 131,072 characters a field is lower than a long document.
csv.field_size_limit(2**30)
#: Of an EpochRow, what depends on the clock.
TIMED = ("elapsed", "compile", "samples_per_second")


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
        """What is resampled, and dealt into folds, as a whole."""
        return f"group {self.group}" if self.group else f"id {self.id}"


@dataclass(frozen=True)
class Prediction:
    """The predictions of every training for an example: a class by its name, a number as text."""

    id: str
    fold: int
    target: str
    predictions: tuple[str, ...]


@dataclass(frozen=True)
class EpochRow:
    """An epoch of a fold's training number `seed`. `elapsed` is the learning alone, in seconds;
    `compile` the compilation before it, 0 except in a process's first epoch."""

    fold: int
    seed: int
    epoch: int
    train_loss: float
    validation_loss: float
    score: float
    elapsed: float
    compile: float
    samples_per_second: float

    def cells(self) -> dict[str, str]:
        """The row as text, by column."""
        digits = {"elapsed": ".3f", "compile": ".3f", "samples_per_second": ".1f"}
        digits |= dict.fromkeys(("train_loss", "validation_loss", "score"), ".6f")
        return {name: format(v, digits.get(name, "")) for name, v in asdict(self).items()}


def classes_of(examples: Sequence[Example], task: str) -> list[str]:
    """The names of the classes in ascending order; none for a regression."""
    return sorted({e.target for e in examples}) if task == "classification" else []


def history_digest(rows: Sequence[EpochRow]) -> str:
    """sha256 of the rows without the columns that depend on the clock."""
    return value_sha256([{k: v for k, v in row.cells().items() if k not in TIMED} for row in rows])


def write_examples(path: str | Path, examples: Sequence[Example]) -> None:
    """Write the examples as CSV, atomically."""
    write_csv(path, _columns(Example), map(astuple, examples))


def write_predictions(path: str | Path, rows: Sequence[Prediction]) -> None:
    """Write the predictions as CSV, atomically: of several trainings as `prediction`,
    `prediction_1` and so on."""
    columns = _of_predictions(len(rows[0].predictions))
    write_csv(path, columns, [[r.id, r.fold, r.target, *r.predictions] for r in rows])


def write_history(path: str | Path, rows: Sequence[EpochRow]) -> None:
    """Write the epochs as CSV, atomically."""
    write_csv(path, _columns(EpochRow), [row.cells().values() for row in rows])


def read_examples(path: str | Path) -> list[Example]:
    """The examples. Raises MlmError for a table of another form, as the others do."""
    return [Example(*row[:-1], int(row[-1])) for row in _read(path, _columns(Example))]


def read_predictions(path: str | Path) -> list[Prediction]:
    """The predictions of every training."""
    rows = _read(path, _of_predictions(1))
    return [Prediction(name, int(fold), target, tuple(said)) for name, fold, target, *said in rows]


def read_history(path: str | Path) -> list[EpochRow]:
    """The epochs."""
    kinds = EpochRow.__annotations__.values()
    with reading(path, "a history of epochs"):
        return [
            EpochRow(*(kind(cell) for kind, cell in zip(kinds, row, strict=True)))
            for row in _read(path, _columns(EpochRow))
        ]


def _columns(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _of_predictions(trainings: int) -> list[str]:
    return ["id", "fold", "target", "prediction"] + [f"prediction_{i}" for i in range(1, trainings)]


def _read(path: str | Path, columns: list[str]) -> list[list[str]]:
    """The rows below a header that begins with `columns`."""
    with open(path, encoding="utf-8", newline="") as handle:
        header, *rows = list(csv.reader(handle)) or [[]]
    for number, cells in enumerate([header, *rows]):
        if header[: len(columns)] != columns or len(cells) != len(header):
            raise MlmError(
                f"{path}, line {number + 1}: damaged; the columns {', '.join(columns)} are "
                f"expected, whole. {remedy(path)}"
            )
    return rows

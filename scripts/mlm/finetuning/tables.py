"""The tables that fine-tuning writes: predictions (oof.csv) and epochs (history.csv)."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlm.foundations.atomic import write_csv
from mlm.foundations.digests import value_sha256
from mlm.foundations.errors import MlmError, reading, remedy

#: Followed by `prediction_1` and so on if there are several trainings.
PREDICTION_COLUMNS = ("id", "fold", "target", "prediction")
#: Of an EpochRow, what depends on the clock.
TIMED = ("elapsed", "compile", "samples_per_second")


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


@dataclass(frozen=True)
class Prediction:
    """The predictions of every training for an example: a class by its name, a number as text."""

    id: str
    fold: int
    target: str
    predictions: tuple[str, ...]


def _columns(trainings: int) -> list[str]:
    return [*PREDICTION_COLUMNS, *(f"prediction_{i}" for i in range(1, trainings))]


def write_predictions(path: str | Path, rows: Sequence[Prediction]) -> None:
    """Write the rows as CSV, atomically."""
    columns = _columns(len(rows[0].predictions))
    write_csv(path, columns, [[r.id, r.fold, r.target, *r.predictions] for r in rows])


def read_predictions(path: str | Path) -> list[Prediction]:
    """The rows of a table of predictions. Raises MlmError for a table of another form."""
    with open(path, encoding="utf-8", newline="") as handle:
        header, *rows = list(csv.reader(handle)) or [[]]
    for number, cells in enumerate([header, *rows]):
        if len(header) < 4 or header != _columns(len(header) - 3) or len(cells) != len(header):
            raise MlmError(
                f"{path}, line {number + 1}: no table of predictions (columns "
                f"{', '.join(PREDICTION_COLUMNS)}), or cut short. {remedy(path)}"
            )
    return [Prediction(r[0], int(r[1]), r[2], tuple(r[3:])) for r in rows]


def write_history(path: str | Path, rows: Sequence[EpochRow]) -> None:
    """Write the epochs as CSV, atomically."""
    write_csv(path, EpochRow.__dataclass_fields__, [row.cells().values() for row in rows])


def history_digest(rows: Sequence[EpochRow]) -> str:
    """sha256 of the rows without the columns that depend on the clock."""
    return value_sha256([{k: v for k, v in row.cells().items() if k not in TIMED} for row in rows])


def read_history(path: str | Path) -> list[EpochRow]:
    """The rows of a history. Raises MlmError if it is damaged."""
    kinds = EpochRow.__annotations__
    with (
        reading(path, "a history of epochs"),
        open(path, encoding="utf-8", newline="") as handle,
    ):
        return [
            EpochRow(**{k: kinds[k](v) for k, v in row.items()}) for row in csv.DictReader(handle)
        ]

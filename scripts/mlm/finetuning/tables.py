"""The tables that fine-tuning writes: predictions (oof.csv) and epochs (history.csv)."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlm.finetuning.examples import Example
from mlm.foundations.atomic import write_csv
from mlm.foundations.digests import value_sha256
from mlm.foundations.errors import MlmError, reading, remedy

#: Followed by `prediction_1` and so on where there are several trainings.
PREDICTION_COLUMNS = ("id", "fold", "target", "prediction")


_WHOLE = ("fold", "seed", "epoch")


@dataclass(frozen=True)
class EpochRow:
    """An epoch of a fold's training number `seed`. `elapsed` are the seconds of learning alone;
    `compile` those that compiling took before it, which is 0 but for a process's first epoch."""

    fold: int
    seed: int
    epoch: int
    train_loss: float
    validation_loss: float
    score: float
    elapsed: float
    compile: float
    samples_per_second: float

    def cells(self) -> list[str]:
        """The row as text."""
        digits = {"elapsed": ".3f", "compile": ".3f", "samples_per_second": ".1f"}
        digits |= dict.fromkeys(("train_loss", "validation_loss", "score"), ".6f")
        return [format(value, digits.get(name, "")) for name, value in asdict(self).items()]


@dataclass(frozen=True)
class Prediction:
    """What is predicted for an example, by each training; a class by its name, a number as text."""

    id: str
    fold: int
    target: str
    predictions: tuple[str, ...]


def _columns(trainings: int) -> list[str]:
    return [*PREDICTION_COLUMNS, *(f"prediction_{i}" for i in range(1, trainings))]


def write_prediction_rows(path: str | Path, rows: Sequence[Prediction]) -> None:
    """Write the rows as CSV, atomically."""
    columns = _columns(len(rows[0].predictions))
    write_csv(path, columns, [[r.id, r.fold, r.target, *r.predictions] for r in rows])


def write_predictions(
    path: str | Path,
    examples: Sequence[Example],
    classes: Sequence[str],
    logits: Sequence[np.ndarray],
    fold: int,
) -> None:
    """Write the predictions of `examples` from each training's logits float32 [examples, outputs].

    `classes` are the outputs' names, none for a regression.
    """
    said = [
        [classes[i] for i in x.argmax(axis=1)] if classes else [f"{v:.6f}" for v in x[:, 0]]
        for x in logits
    ]
    by_example = zip(examples, zip(*said, strict=True), strict=True)
    write_prediction_rows(path, [Prediction(e.id, fold, e.target, p) for e, p in by_example])


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
    write_csv(path, EpochRow.__dataclass_fields__, [row.cells() for row in rows])


def history_digest(rows: Sequence[EpochRow]) -> str:
    """sha256 of all in a history that time does not change, as it is written there."""
    timed = ("elapsed", "compile", "samples_per_second")
    names = EpochRow.__dataclass_fields__
    kept = [dict(zip(names, row.cells(), strict=True)) for row in rows]
    return value_sha256([{k: v for k, v in row.items() if k not in timed} for row in kept])


def read_history(path: str | Path) -> list[EpochRow]:
    """The rows of a history. Raises MlmError where it is damaged."""
    with (
        reading(path, "a history of epochs"),
        open(path, encoding="utf-8", newline="") as handle,
    ):
        return [
            EpochRow(**{k: (int if k in _WHOLE else float)(v) for k, v in row.items()})
            for row in csv.DictReader(handle)
        ]

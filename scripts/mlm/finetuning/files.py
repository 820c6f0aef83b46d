"""The tables that fine-tuning writes: predictions (oof.csv) and epochs (history.csv)."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlm.atomic import write_text
from mlm.finetuning.examples import Example

PREDICTION_COLUMNS = ("id", "fold", "target", "prediction")


@dataclass(frozen=True)
class EpochRow:
    """An epoch of a fold. `elapsed` are the seconds of its training alone; `compile` those
    that compiling took before it, which is 0 but for a process's first epoch."""

    fold: int
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
    """One row of a table of predictions; a class by its name, a number as text."""

    id: str
    fold: int
    target: str
    prediction: str


def _write(path: str | Path, header: Sequence[str], rows: Sequence[Sequence]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_prediction_rows(path: str | Path, rows: Sequence[Prediction]) -> None:
    """Write the rows as CSV, atomically."""
    _write(path, PREDICTION_COLUMNS, [list(asdict(row).values()) for row in rows])


def write_predictions(
    path: str | Path,
    examples: Sequence[Example],
    classes: Sequence[str],
    logits: np.ndarray,
    fold: int,
) -> None:
    """Write the predictions of `examples` from their logits float32 [examples, outputs].

    `classes` are the outputs' names, none for a regression.
    """
    rows = []
    for example, row in zip(examples, logits, strict=True):
        said = classes[int(row.argmax())] if classes else f"{row[0]:.6f}"
        rows.append(Prediction(example.id, fold, example.target, said))
    write_prediction_rows(path, rows)


def read_predictions(path: str | Path) -> list[Prediction]:
    """The rows of a table of predictions."""
    with open(path, encoding="utf-8", newline="") as handle:
        return [
            Prediction(r["id"], int(r["fold"]), r["target"], r["prediction"])
            for r in csv.DictReader(handle)
        ]


def write_history(path: str | Path, rows: Sequence[EpochRow]) -> None:
    """Write the epochs as CSV, atomically."""
    _write(path, tuple(EpochRow.__dataclass_fields__), [row.cells() for row in rows])


def read_history(path: str | Path) -> list[EpochRow]:
    """The rows of a history."""
    with open(path, encoding="utf-8", newline="") as handle:
        return [
            EpochRow(int(r.pop("fold")), int(r.pop("epoch")), **{k: float(v) for k, v in r.items()})
            for r in csv.DictReader(handle)
        ]

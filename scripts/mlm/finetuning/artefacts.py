"""The files that the jobs of a fine-tuning write before metrics.json: the tables of examples
and predictions (oof.csv) as CSV, and records as JSON."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from mlm.foundations.artefacts import OPTIONAL, Artefact
from mlm.foundations.atomic import write_csv

# csv's own limit of 131,072 characters a field is lower than a long document.
csv.field_size_limit(2**30)


@dataclass(frozen=True)
class Example:
    """One passage, held out in `fold`. `target` is a number as text, or the name of a class; of a
    sentence, `excerpt` are its words, separated by tabs, and `target` their tags, by spaces.

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


def classes_of(examples: Sequence[Example], task: str) -> list[str]:
    """The names of the classes, or of the tags, in ascending order; none for a regression."""
    if task == "regression":
        return []
    return sorted({name for e in examples for name in names_in(e.target, task)})


def names_in(target: str, task: str) -> list[str]:
    """The class that is the target of an example, or the tags of its words."""
    return target.split(" ") if task == "token_classification" else [target]


def write_examples(path: str | Path, examples: Sequence[Example]) -> None:
    """Write the examples as CSV, atomically."""
    write_csv(path, [field.name for field in fields(Example)], [astuple(e) for e in examples])


def read_examples(path: str | Path) -> list[Example]:
    """The examples that `write_examples` wrote."""
    with open(path, encoding="utf-8", newline="") as handle:
        return [Example(*row[:5], fold=int(row[5])) for row in list(csv.reader(handle))[1:]]


def write_predictions(path: str | Path, rows: Sequence[Prediction]) -> None:
    """Write the predictions as CSV: of several trainings as `prediction`, `prediction_1`, …"""
    columns = ["id", "fold", "target", "prediction"]
    columns += [f"prediction_{i}" for i in range(1, len(rows[0].predictions))]
    write_csv(path, columns, [[r.id, r.fold, r.target, *r.predictions] for r in rows])


def read_predictions(path: str | Path) -> list[Prediction]:
    """The predictions of every training."""
    with open(path, encoding="utf-8", newline="") as handle:
        _, *rows = csv.reader(handle)
    return [Prediction(id, int(fold), target, tuple(values)) for id, fold, target, *values in rows]


def texts_of(outputs: np.ndarray, classes: list[str]) -> list[str]:
    """Predictions as text, by `outputs` [examples, outputs]."""
    if classes:
        return [classes[int(i)] for i in outputs.argmax(axis=1)]
    return [f"{value:.6f}" for value in outputs[:, 0]]


def predictions_of(examples: Sequence[Example], texts: Iterable[Sequence[str]]) -> list[Prediction]:
    """The predictions for `examples`, whose `texts` are those of each training."""
    by_example = zip(examples, zip(*texts, strict=True), strict=True)
    return [Prediction(e.id, e.fold, e.target, values) for e, values in by_example]


@dataclass(frozen=True)
class ExampleSource:
    """Where the examples come from; of a file, its name and sha256."""

    kind: str
    name: str | None = field(default=None, metadata=OPTIONAL)
    sha256: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class ExampleData:
    """The examples by splits of pretraining, folds and classes; `target` are mean,
    standard_deviation, lowest and highest of a regression."""

    task: str
    source: ExampleSource
    examples: int
    groups: int
    words: int
    splits: dict[str, int]
    folds: list[int]
    target: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    classes: dict[str, int] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class ExamplesSummary(ExampleData, Artefact):
    """The summary beside the table of examples."""


@dataclass(frozen=True)
class FoldRecord(Artefact):
    """A fold of one start, None for the training on all examples: how many were learned and
    held_out, and the learning rate, with the scores of those that were `tried` on the validation
    part. Of a published encoder, `run` is None, and `encoder` the sha256 of the checkpoint."""

    run: str | None
    start: str
    fold: int | None
    examples: dict[str, int]
    truncated: int
    device: dict[str, Any]
    precision: str
    learning_rate: float
    tried: dict[str, float] = field(default_factory=dict)
    encoder: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class BaselineChoice:
    """The terms and penalty with which TF-IDF and ridge regression predict `fold`."""

    terms: str
    penalty: float
    error: float
    fold: int


@dataclass(frozen=True)
class BaselineRecord(Artefact):
    task: str
    examples: int
    chosen: list[BaselineChoice]

"""The files that the jobs of a fine-tuning write before metrics.json: the tables of examples
and predictions as CSV, and records as JSON."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

import numpy as np

from mlm.foundations.artefacts import OPTIONAL, Artefact
from mlm.foundations.atomic import write_csv

# csv's own limit of 131,072 characters a field is lower than a long document.
csv.field_size_limit(2**30)
#: Predictions by the id of an example: a class by its name, a number as text.
Predictions = Mapping[str, str]


@dataclass(frozen=True)
class Example:
    """One passage, held out in `fold`. `target` is a number as text, or the name of a class; of a
    sentence, `excerpt` are its words, separated by tabs, and `target` their tags, by spaces.

    Folds keep a `group` together (empty: the example alone)."""

    id: str
    excerpt: str
    target: str
    group: str = ""
    fold: int = 0

    @property
    def unit(self) -> str:
        """What is resampled, and dealt into folds, as a whole: the group, else equal texts."""
        return f"group {self.group}" if self.group else f"text {self.excerpt}"


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
        return [Example(*row[:4], fold=int(row[4])) for row in list(csv.reader(handle))[1:]]


def write_predictions(path: str | Path, predictions: Predictions) -> None:
    """Write the predictions as CSV, atomically."""
    write_csv(path, ["id", "prediction"], predictions.items())


def read_predictions(path: str | Path) -> dict[str, str]:
    """The predictions that `write_predictions` wrote."""
    with open(path, encoding="utf-8", newline="") as handle:
        return dict(list(csv.reader(handle))[1:])


def texts_of(outputs: np.ndarray, classes: list[str]) -> list[str]:
    """Predictions as text, by `outputs` [examples, outputs]."""
    if classes:
        return [classes[int(i)] for i in outputs.argmax(axis=1)]
    return [f"{value:.7g}" for value in outputs[:, 0]]


@dataclass(frozen=True)
class ExamplesSummary(Artefact):
    """The summary beside the table of examples: their number by fold and class, and the mean and
    standard_deviation of a regression's `target`. Of a file, its name and sha256."""

    task: str
    source: str
    examples: int
    groups: int
    words: int
    folds: list[int]
    file: str | None = field(default=None, metadata=OPTIONAL)
    sha256: str | None = field(default=None, metadata=OPTIONAL)
    target: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    classes: dict[str, int] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class FoldRecord(Artefact):
    """The record beside the predictions of a fold, or beside the model to use: how many texts are
    truncated, the sha256 of the checkpoint it began from, and the learning rate, with the scores of
    those that were `tried` on the validation part and did not diverge."""

    truncated: int
    checkpoint: str
    learning_rate: float
    tried: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BaselineRecord(Artefact):
    """The record beside the predictions of the baseline: the L2 penalty of each fold."""

    penalties: list[float]

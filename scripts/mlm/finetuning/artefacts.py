"""The files that the jobs of a fine-tuning write before metrics.json: the tables of examples
and predictions as CSV, and records as JSON; and the metrics that predictions are scored by."""

import csv
from collections.abc import Callable, Mapping, Sequence
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
    return [f"{value:.6f}" for value in outputs[:, 0]]


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
    those that were `tried` on the validation part."""

    truncated: int
    checkpoint: str
    learning_rate: float
    tried: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BaselineRecord(Artefact):
    """The record beside the predictions of the baseline: the L2 penalty of each fold."""

    penalties: list[float]


@dataclass(frozen=True)
class Metric:
    """A score that divides two sums over the examples: `addends` of a target and its prediction;
    `finish` makes the score from their ratio. `unit` is its name in sentences."""

    name: str
    unit: str
    less_is_better: bool
    addends: Callable[[str, str], tuple[float, float]]
    finish: Callable = np.asarray

    def sums(self, examples: Sequence[Example], predictions: Predictions) -> np.ndarray:
        """The addends of each example: float64 [examples, 2]."""
        return np.array([self.addends(e.target, predictions[e.id]) for e in examples], float)

    def of(self, examples: Sequence[Example], predictions: Predictions) -> float:
        """The score of all `examples`."""
        return float(self.score(self.sums(examples, predictions).sum(axis=0)))

    def score(self, sums: np.ndarray) -> np.ndarray:
        """The score of `sums` [..., 2]; 0 of nothing."""
        divisor = sums[..., 1]
        ratio = np.divide(sums[..., 0], divisor, out=np.zeros_like(divisor), where=divisor != 0)
        return self.finish(ratio)


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """First word, end and type of the entities of IOB2 `tags`, read strictly."""
    spans, start, kind = set(), 0, None
    for place, tag in enumerate([*tags, "O"]):
        if kind is not None and tag != f"I-{kind}":
            spans.add((start, place, kind))
            kind = None
        if tag.startswith("B-"):
            start, kind = place, tag[2:]
    return spans


def _right_words(target: str, prediction: str) -> tuple[float, float]:
    tags = target.split(" ")
    return sum(map(str.__eq__, tags, prediction.split(" "))), len(tags)


def _entities_in_common(target: str, prediction: str) -> tuple[float, float]:
    true, predicted = entities(target.split(" ")), entities(prediction.split(" "))
    return 2 * len(true & predicted), len(true) + len(predicted)


_ENTITIES = Metric("f1", "entity F1", False, _entities_in_common)
#: By task.
METRICS = {
    "regression": Metric(
        "rmse", "RMSE", True, lambda t, p: ((float(p) - float(t)) ** 2, 1), np.sqrt
    ),
    "classification": Metric("accuracy", "accuracy", False, lambda t, p: (float(p == t), 1)),
    "token_classification": Metric("accuracy", "accuracy of words", False, _right_words),
}


def metric_of(task: str, classes: Sequence[str]) -> Metric:
    """The metric of a task; that of tags is of entities if they are IOB2, or else of words."""
    is_iob = task == "token_classification" and any(c[:2] in ("B-", "I-") for c in classes)
    return _ENTITIES if is_iob else METRICS[task]

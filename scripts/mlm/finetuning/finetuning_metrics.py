"""The metrics that predictions are scored by: of numbers, classes, and words or entities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlm.finetuning.artefacts import Example, Predictions


@dataclass(frozen=True)
class Metric:
    """A score that divides two sums over the examples: `addends` of a target and its prediction;
    `finish` makes the score from their ratio. `unit` names it in sentences, `digits` formats it."""

    name: str
    unit: str
    less_is_better: bool
    addends: Callable[[str, str], tuple[float, float]]
    finish: Callable = np.asarray
    digits: str = ".6f"

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

    def rounded(self, score: float) -> float:
        """The score as files have it."""
        return float(format(score, self.digits))

    def shown(self, score: float, sign: str = "") -> str:
        """The score with three decimals, or of a small error with three digits."""
        form = "g" if self.less_is_better and 0 < abs(score) < 0.01 else "f"
        return f"{score:{sign}z,.3{form}}".replace("-", "−")


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
        "rmse", "RMSE", True, lambda t, p: ((float(p) - float(t)) ** 2, 1), np.sqrt, ".7g"
    ),
    "classification": Metric("accuracy", "accuracy", False, lambda t, p: (float(p == t), 1)),
    "token_classification": Metric("accuracy", "accuracy of words", False, _right_words),
}


def metric_of(task: str, classes: Sequence[str]) -> Metric:
    """The metric of a task; that of tags is of entities if they are IOB2, or else of words."""
    is_iob = task == "token_classification" and any(c[:2] in ("B-", "I-") for c in classes)
    return _ENTITIES if is_iob else METRICS[task]

"""What `results/runs/{run}/finetune/metrics.json` says of a fine-tuning, and how it is computed.

Apart from the types of what the folds write, so that an edit here trains none of them again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mlm.config.finetune import Finetune
from mlm.evaluation.artefacts import Interval, Verdict
from mlm.evaluation.intervals import Estimate, sums_by_cluster
from mlm.evaluation.verdicts import FEW_CLUSTERS
from mlm.finetuning.artefacts import Example, ExamplesSummary, Predictions, classes_of
from mlm.finetuning.finetuning_metrics import Metric, metric_of
from mlm.foundations.artefacts import OPTIONAL, Artefact

#: The models that are always compared, in words; the others are published encoders.
NAMES = {
    "pretrained": "fine-tuned from the pretrained weights",
    "random": "the same network from random weights",
    "baseline": "TF-IDF and ridge regression",
}
_PAIRS = (("pretrained", "random"), ("pretrained", "baseline"), ("random", "baseline"))


def name_of(model: str, task: str = "") -> str:
    """What a compared model is called in sentences and tables."""
    if (model, task) == ("baseline", "token_classification"):
        return "the most frequent tag of each word"
    return NAMES.get(model, f"the published encoder {model}")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A score with its interval, None if there is only one group or example to resample."""

    score: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class ModelScores(Measured):
    """A model's scores on all examples and by fold, with the folds' mean and sample standard
    deviation, and the `macro_f1` of a classification."""

    folds: list[float]
    mean: float
    spread: float
    macro_f1: float | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class ScoreDifference(Measured):
    """How much higher the score of `model` is than that of the model `beside` it."""

    model: str
    beside: str


@dataclass(frozen=True)
class Finetuning(Artefact):
    """metrics.json: all folds of every start, with their learning rates, beside the baseline.
    `digests` are the sha256 of the table of examples and of the weights of the model to use, those
    in `also` of published encoders."""

    format_version: int = field(default=4, kw_only=True)
    run: str
    task: str
    score: str
    data: ExamplesSummary
    models: dict[str, ModelScores]
    differences: list[ScoreDifference]
    verdicts: list[Verdict]
    learning_rates: dict[str, list[float]]
    settings: dict
    digests: dict[str, str]
    packages: dict[str, str]
    also: dict[str, str] | None = field(default=None, metadata=OPTIONAL)

    @property
    def classes(self) -> list[str]:
        """The classes or tags; none of a regression."""
        return list(self.data.classes or ())

    @property
    def metric(self) -> Metric:
        return metric_of(self.task, self.classes)


def scores_of(
    examples: Sequence[Example], predictions: Mapping[str, Predictions], section: Finetune
) -> dict:
    """The fields of `Finetuning` that follow from the predictions by model."""
    task = section.task
    metric = metric_of(task, classes_of(examples, task))
    sums = {name: metric.sums(examples, rows) for name, rows in predictions.items()}
    # An array of texts, not of objects, would give each the room of the longest.
    fold_of, units = np.array([e.fold for e in examples]), np.array([e.unit for e in examples], "O")
    compared, models = Comparison(metric, sums, units), {}
    for name, rows in predictions.items():
        by_fold = [sums[name][fold_of == fold].sum(axis=0) for fold in range(section.folds)]
        folds = metric.score(np.array(by_fold))
        models[name] = ModelScores(
            **compared.figures(name),
            folds=[metric.rounded(score) for score in folds],
            mean=metric.rounded(folds.mean()),
            spread=metric.rounded(folds.std(ddof=1)),
            macro_f1=macro_f1(examples, rows) if task == "classification" else None,
        )
    pairs = [*_PAIRS, *(("pretrained", name) for name in models if name not in NAMES)]
    differences = [ScoreDifference(**compared.figures(*p), model=p[0], beside=p[1]) for p in pairs]
    return {
        "task": task,
        "score": metric.name,
        "models": models,
        "differences": differences,
        "verdicts": [verdict_on(d, metric, task, len(set(units))) for d in differences],
    }


class Comparison:
    """Scores of several models on the same examples, and the differences between them, paired.
    `sums` are those of a `Metric` by model; intervals are over the `units` [examples]."""

    def __init__(self, metric: Metric, sums: Mapping[str, np.ndarray], units: np.ndarray):
        self._metric, self._names = metric, list(sums)
        self._sums = sums_by_cluster(units, *np.column_stack([*sums.values()]).T)

    def figures(self, name: str, beside: str | None = None) -> dict:
        """Return the fields of `Measured`: a model's score, or how much higher it is than that of
        the model `beside`."""

        def score(sums: np.ndarray) -> np.ndarray:
            scores = self._metric.score(sums[..., :-1].reshape(*sums.shape[:-1], -1, 2))
            other = 0 if beside is None else scores[..., self._names.index(beside)]
            return scores[..., self._names.index(name)] - other

        estimate = Estimate.of(self._sums, score)
        is_share = beside is None and not self._metric.less_is_better
        ends = estimate.share_interval if is_share else estimate.interval
        interval = ends and tuple(map(self._metric.rounded, ends))
        return {"score": self._metric.rounded(estimate.value), "interval": interval}


def macro_f1(examples: Sequence[Example], predictions: Predictions) -> float:
    """The mean over the classes of the targets of 2 TP / (2 TP + FP + FN)."""
    targets, scores = np.array([e.target for e in examples]), []
    predicted = np.array([predictions[e.id] for e in examples])
    for name in np.unique(targets):
        true, positive = targets == name, predicted == name
        scores.append(2 * np.sum(true & positive) / (np.sum(true) + np.sum(positive)))
    return round(float(np.mean(scores)), 6)


def verdict_on(difference: ScoreDifference, metric: Metric, task: str, units: int) -> Verdict:
    """Whether one model is better than another, by an interval over so many `units`."""
    interval, tone, relation = "no interval: one group", "even", "not told apart from"
    if difference.interval:
        low, high = difference.interval
        interval = f"95 % interval {metric.shown(low, '+')} to {metric.shown(high, '+')}"
        if units < FEW_CLUSTERS:
            interval += f", rough because from only {units} groups"
        if not low <= 0 <= high:
            tone = "better" if (difference.score < 0) == metric.less_is_better else "worse"
            relation = f"{tone} than"
    name, other = name_of(difference.model, task), name_of(difference.beside, task)
    subject = f"{name[0].upper()}{name[1:]}" + (", it" if name.startswith("fine") else "")
    amount = f"{metric.shown(difference.score, '+')} in {metric.unit}"
    return Verdict(tone, f"{subject} is {relation} {other}: {amount} ({interval}).")

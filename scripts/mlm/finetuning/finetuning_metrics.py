"""What `results/runs/{run}/finetune/metrics.json` says of a fine-tuning.

Apart from the types of what the folds write, so that an edit here trains none of them again.
"""

from dataclasses import dataclass, field

from mlm.evaluation.artefacts import Interval, Verdict
from mlm.finetuning.artefacts import BaselineChoice, ExampleData
from mlm.foundations.artefacts import OPTIONAL, Artefact

#: The models that are always compared, in words; the others are published encoders.
NAMES = {
    "pretrained": "fine-tuned from the pretrained weights",
    "random": "the same network from random weights",
    "baseline": "TF-IDF and ridge regression",
}
_TAGS_BASELINE = "the most frequent tag of each word"


def name_of(model: str, task: str = "") -> str:
    """What a compared model is called in sentences and tables."""
    if (model, task) == ("baseline", "token_classification"):
        return _TAGS_BASELINE
    return NAMES.get(model, f"the published encoder {model}")


@dataclass(frozen=True)
class Measured:
    """A score with its interval, None if there is only one group or example to resample."""

    score: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class ByPart:
    """A measure on all examples and, if known, on those unseen and seen in pretraining."""

    all: Measured
    unseen: Measured | None = field(default=None, metadata=OPTIONAL)
    seen: Measured | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class ModelScores(ByPart):
    """A model's scores by fold, with mean and sample standard deviation, and by part; `seeds` by
    training of a network, `macro_f1` of a classification."""

    folds: list[float]
    mean: float
    spread: float
    seeds: list[float] | None = field(default=None, metadata=OPTIONAL)
    macro_f1: float | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class ScoreDifference(ByPart):
    """How much higher the score of `model` is than that of the model `beside` it."""

    model: str
    beside: str


@dataclass(frozen=True)
class PartSize:
    """The examples of a part, and their groups, 0 if the data name none."""

    examples: int
    groups: int


@dataclass(frozen=True)
class ShownPredictions:
    """For a plot: values `predicted` and `true`, or `counts` by true and predicted class."""

    true: list[float] | None = field(default=None, metadata=OPTIONAL)
    predicted: list[float] | None = field(default=None, metadata=OPTIONAL)
    classes: list[str] | None = field(default=None, metadata=OPTIONAL)
    counts: list[list[int]] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class Finetuning(Artefact):
    """metrics.json: all folds of every start, with their learning rates, beside the baseline.
    `digests` are the sha256 of the table of examples and of the weights of the model to use, those
    in `also` of published encoders."""

    format_version: int = field(default=3, kw_only=True)
    run: str
    task: str
    score: str
    confidence: float
    data: ExampleData
    parts: dict[str, PartSize]
    models: dict[str, ModelScores]
    differences: list[ScoreDifference]
    shown: ShownPredictions
    verdicts: list[Verdict]
    baseline: list[BaselineChoice]
    learning_rates: dict[str, list[float]]
    settings: dict
    digests: dict[str, str]
    packages: dict[str, str]
    also: dict[str, str] | None = field(default=None, metadata=OPTIONAL)

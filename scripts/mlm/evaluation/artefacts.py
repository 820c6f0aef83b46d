"""What evaluation.json and fill_mask.json say of a run's model."""

import os
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mlm.corpus.artefacts import WordOverlap
from mlm.foundations.artefacts import OPTIONAL, Artefact, as_json, write_artefact
from mlm.training.artefacts import ACCURACY, LOSS

Tone = Literal["better", "worse", "even"]
Interval = tuple[float, float]


def rounded(value: Any) -> Any:
    """`value`, JSON-like, with every float at seven significant digits, so that what another batch
    size changes in the last bits of float32 is not shown."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


class _Rounded(Artefact):
    def write(self, path: str | os.PathLike) -> None:
        """Write the artefact to `path`, rounded, with its seal, atomically."""
        write_artefact(path, rounded(as_json(self)))


@dataclass(frozen=True)
class Verdict:
    """A sentence about the figures: good news, bad news, neither (even), or a remark (plain)."""

    tone: Literal["better", "worse", "even", "plain"]
    text: str


@dataclass(frozen=True)
class Metric:
    """How a mean over the predictions is shown: the `heading` of its column in the report and
    there its entry `term` in report/glossary.yaml, in percent or with so many `digits`; whether
    runs are `compared` by it; what a published model's `card` calls it (None: not there)."""

    heading: str
    term: str
    digits: int | None = None
    compared: bool = True
    card: str | None = None


def _metric(*shown: Any, **how: Any) -> dict[str, Metric]:
    return {"metric": Metric(*shown, **how)}


@dataclass(frozen=True)
class Means:
    """Means over predictions of a model or a baseline (`means_over` of mlm.evaluation.metrics)."""

    loss: float = field(metadata=_metric("Loss, nats", "loss", digits=3, card=LOSS))
    perplexity: float = field(
        metadata=_metric("Perplexity", "perplexity", 1, False, "Perplexity of masked tokens")
    )
    accuracy: float = field(metadata=_metric("Accuracy", "accuracy", card=ACCURACY))


@dataclass(frozen=True)
class Summary(Means):
    """Means over a model's predictions, each of a token that is hidden from it, with intervals of
    95 % over `num_clusters` (see `cluster_by`); None is what is not known. `unknown_share` of the
    text's tokens are unknown to the tokenizer and never predicted."""

    top5_accuracy: float = field(metadata=_metric("Top 5", "top5", compared=False))
    num_predictions: int
    num_samples: int
    num_groups: int
    num_clusters: int
    unknown_share: float
    loss_interval: Interval | None
    accuracy_interval: Interval | None
    bits_per_character: float | None
    bits_per_character_interval: Interval | None


METRICS: dict[str, Metric] = {
    f.name: f.metadata["metric"] for f in fields(Summary) if "metric" in f.metadata
}


@dataclass(frozen=True)
class Difference:
    """Difference of two means and its 95 % interval, None for a single cluster."""

    value: float
    interval: Interval | None

    def tone(self, higher_is_better: bool = False) -> Tone:
        """Return whether the first is better beyond chance, worse beyond chance, or neither."""
        low, high = self.interval or (0, 0)
        if low <= 0 <= high:
            return "even"
        return "better" if (low > 0) == higher_is_better else "worse"

    @property
    def smallest_shown(self) -> float | None:
        """The smallest difference that would have been shown: half the interval's width."""
        return (self.interval[1] - self.interval[0]) / 2 if self.interval else None


@dataclass(frozen=True)
class Baseline(Means):
    """A baseline's means at the model's positions, with the view that the model has; the
    differences are the model's loss and accuracy minus the baseline's."""

    bits_per_character: float | None
    loss_difference: Difference
    accuracy_difference: Difference
    weights: dict[str, float] | None = field(default=None, metadata=OPTIONAL)

    @property
    def tone(self) -> Tone:
        """Whether the model is better in loss and accuracy, worse in both, or neither."""
        tone = self.loss_difference.tone()
        return tone if tone == self.accuracy_difference.tone(higher_is_better=True) else "even"


#: In the order of what they know; `baselines` of mlm.evaluation.model_evaluation computes them.
BASELINES = ("unigram", "bigram", "trigram")


@dataclass(frozen=True)
class FrequencyBand:
    """Tokens of a range of ranks by frequency in train, the last open above (None); means over the
    predictions, None if there are none."""

    loss: float | None
    accuracy: float | None
    num_predictions: int
    label: str
    first_rank: int
    last_rank: int | None


@dataclass(frozen=True)
class PairFigures:
    """Figures of the pairs of one phenomenon in one file: `margin` is the mean of the acceptable
    sentence's score less the other's, in nats; of ties, half count as correct."""

    file: str | None
    phenomenon: str | None
    num_pairs: int
    num_ties: int
    accuracy: float
    accuracy_interval: Interval | None
    margin: float
    margin_interval: Interval | None
    bigram_accuracy: float


@dataclass(frozen=True)
class MinimalPairs:
    """`num_left_out` counts pairs that are too long for a sample, or without a token."""

    total: PairFigures
    phenomena: list[PairFigures]
    num_left_out: int


@dataclass(frozen=True)
class BitsOfGroup:
    """Bits per character of a group, or of a source of a mix, with an interval over its groups, or
    its samples if it has one group. `characters` are those of all its text."""

    name: str
    bits_per_character: float
    bits_per_character_interval: Interval | None
    num_predictions: int
    num_samples: int
    num_groups: int
    characters: int


@dataclass(frozen=True)
class BitsByGroup:
    """The worst groups and the best of `num_groups`, worst first, and all sources of a mix."""

    num_groups: int
    groups: list[BitsOfGroup]
    sources: list[BitsOfGroup]


@dataclass(frozen=True)
class ClusterSums:
    """Sums by cluster of the test text, for pairing runs. If `tokens` and `characters` of its text
    are known, each cluster has a row; beyond MOST_CLUSTER_SUMS, adjacent ones are added up."""

    loss: list[float]
    correct: list[int]
    predictions: list[int]
    tokens: list[int] | None = field(default=None, metadata=OPTIONAL)
    characters: list[int] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class EvaluationFigures(_Rounded):
    """Every figure of a run's model on the test split, and on as many samples of train.

    `as_in_papers` are the means over one draw of 15 % of the test tokens, replaced 80/10/10, so
    that some stay visible. `gap_to_train` is the loss on test less that on train, each less the
    unigram's, since one text may be the harder one. `cluster_by` says what an interval's clusters
    are: `group_by`, or what the corpus names beyond it, as `president`. None or left out is what is
    not known. `settings` are those that the figures depend on, `digests` the sha256 of files.
    """

    format_version: int = field(default=7, kw_only=True)
    run: str
    test: Summary
    train: Summary
    gap_to_train: Difference
    as_in_papers: Means
    baselines: dict[str, Baseline]
    frequency_bands: list[FrequencyBand]
    minimal_pairs: MinimalPairs | None
    verdicts: list[Verdict]
    group_by: str | None
    cluster_by: str
    cluster_sums: ClusterSums
    settings: dict[str, Any]
    digests: dict[str, str]
    by_group: BitsByGroup | None = field(default=None, metadata=OPTIONAL)
    overlap_with_train: WordOverlap | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class FilledToken:
    """A token, the prompt with it, and its probability."""

    token: str
    sequence: str
    score: float


@dataclass(frozen=True)
class Prompt:
    """A prompt and its answers, the most probable first."""

    prompt: str
    answers: list[FilledToken]


@dataclass(frozen=True)
class FillMask(_Rounded):
    run: str
    prompts: list[Prompt]

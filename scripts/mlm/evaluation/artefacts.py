"""What evaluation.json and fill_mask.json say of a run's model."""

import os
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mlm.config.fields import MaskedShares
from mlm.foundations.artefacts import OPTIONAL, Artefact, as_json, write_artefact
from mlm.training.artefacts import ACCURACY, LOSS

#: Significant digits of every number in the files. A loss of 10 nats is then right to 1e-6,
#: and what another processor or batch size changes in the last bits of float32 is not shown.
DIGITS = 7

Tone = Literal["better", "worse", "even"]
Interval = tuple[float, float]


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """`value`, JSON-like, with every float at `digits` significant digits."""
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


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


def _metric(*shown, **how) -> Any:
    return field(metadata={"metric": Metric(*shown, **how)})


@dataclass(frozen=True)
class Means:
    """Means over predictions of a model or a baseline, losses in nats. `means_over` and, of a model
    alone, `means_of_model` of mlm.evaluation.metrics compute them."""

    loss: float = _metric("Loss, nats", "loss", digits=3, card=LOSS)
    perplexity: float = _metric(
        "Perplexity", "perplexity", digits=1, compared=False, card="Perplexity of masked tokens"
    )
    accuracy: float = _metric("Accuracy", "accuracy", card=ACCURACY)


@dataclass(frozen=True)
class MeansOfModel(Means):
    top5_accuracy: float = _metric("Top 5", "top5", compared=False)
    num_predictions: int
    loss_interval: Interval | None
    accuracy_interval: Interval | None


METRICS: dict[str, Metric] = {
    f.name: f.metadata["metric"] for f in fields(MeansOfModel) if "metric" in f.metadata
}


@dataclass(frozen=True)
class Summary(MeansOfModel):
    """Means over all predictions. `hidden`, the headline, is over those whose answer the model is
    not shown; so are the numbers of samples and groups and `bits_per_character` (None without a
    number of characters), with its interval."""

    num_samples: int
    num_groups: int
    bits_per_character: float | None
    bits_per_character_interval: Interval | None
    hidden: MeansOfModel


@dataclass(frozen=True)
class Difference:
    """A mean difference, of two losses in nats unless said, and its confidence interval, None if
    there is only one group or sample to resample."""

    difference: float
    difference_interval: Interval | None

    @property
    def tone(self) -> Tone:
        """Whether the first loss is better beyond chance, worse beyond chance, or neither."""
        low, high = self.difference_interval or (0, 0)
        return "better" if high < 0 else "worse" if low > 0 else "even"


@dataclass(frozen=True)
class Baseline(Difference):
    """A baseline at the model's positions, where the model is not shown the token itself, with the
    view that the model has: `difference` is the model's loss minus its own, `accuracy_difference`
    the model's accuracy minus its own."""

    accuracy_difference: float
    accuracy_difference_interval: Interval | None
    bits_per_character: float | None
    hidden: Means
    weights: dict[str, float] | None = field(default=None, metadata=OPTIONAL)

    @property
    def accuracy_tone(self) -> Tone:
        """The tone of the difference in accuracy, where more is better."""
        low, high = self.accuracy_difference_interval or (0, 0)
        return Difference(-self.accuracy_difference, (-high, -low)).tone

    @property
    def tones(self) -> Tone:
        """Whether the model is better in loss and accuracy, worse in both, or neither."""
        return self.tone if self.tone == self.accuracy_tone else "even"


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
class Bin:
    """Predictions with a confidence in (low, high], or 0 in the first; means, None if empty."""

    low: float
    high: float
    confidence: float | None
    accuracy: float | None
    num_predictions: int


@dataclass(frozen=True)
class Calibration:
    expected_calibration_error: float | None
    bins: list[Bin]


@dataclass(frozen=True)
class ScoredPair:
    """A pair of sentences of the configuration and their pseudo-log-likelihoods in nats; `correct`
    is 1, 0, or 0.5 for a tie."""

    acceptable: str
    unacceptable: str
    scores: tuple[float, float]
    correct: float


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
    """`pairs` are those of the configuration; `num_left_out` counts those of files that are too
    long for a sample."""

    total: PairFigures
    phenomena: list[PairFigures]
    num_left_out: int
    pairs: list[ScoredPair]


@dataclass(frozen=True)
class BitsOfGroup:
    """A group, or a source of a mix: bits per character where the answer is hidden. The interval
    resamples its groups, or its samples if it has one group. `characters` are those of all its
    text."""

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
class GroupSums:
    """Sums by group of test, where the answer is hidden, for pairing runs; `tokens` and
    `characters` are those of the groups' text, if it is known: then every group has its row."""

    loss: list[float]
    correct: list[int]
    predictions: list[int]
    tokens: list[int] | None = field(default=None, metadata=OPTIONAL)
    characters: list[int] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class EvaluationFigures(_Rounded):
    """Every figure of a run's model on the test split, where the answer is hidden except
    directly in a summary; None or left out is what is turned off or not known: no
    sample of train, shards without groups, text of one group. `gap` is the loss on test less that
    on train; `gap_beyond_unigram` leaves out the unigram's, by which one text is the harder one.
    `settings` are those that the figures depend on, `digests` the sha256 of model, tokenizer,
    manifest, and of the `text` if known."""

    format_version: int = field(default=5, kw_only=True)
    run: str
    test: Summary
    train: Summary | None
    gap: Difference | None
    gap_beyond_unigram: Difference | None
    baselines: dict[str, Baseline]
    frequency_bands: list[FrequencyBand]
    calibration: Calibration
    minimal_pairs: MinimalPairs | None
    verdicts: list[Verdict]
    group_by: str | None
    group_sums: GroupSums
    settings: dict[str, Any]
    digests: dict[str, str]
    by_group: BitsByGroup | None = field(default=None, metadata=OPTIONAL)

    @property
    def masked_as(self) -> str | None:
        """How the targets were masked, as in 80/10/10; None if every answer is hidden."""
        if self.test.num_predictions == self.test.hidden.num_predictions:
            return None
        shares = {name: self.settings[name] for name in ("mask_token", "random_token")}
        return MaskedShares(**shares).replacement


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

"""What evaluation.json and fill_mask.json say of a run's model."""

import os
from dataclasses import dataclass, field
from typing import Any, Literal

from mlm.foundations.artefacts import write_artefact
from mlm.foundations.typed_artefacts import OPTIONAL, Artefact, as_json

#: Significant digits of every number in the files. A loss of 10 nats is then right to 1e-6,
#: and what another processor or batch size changes in the last bits of float32 is not shown.
DIGITS = 7

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
class Subset:
    """Means over a part of the predictions; None if it is empty."""

    loss: float | None
    accuracy: float | None
    num_predictions: int


@dataclass(frozen=True)
class Hidden(Subset):
    """Means over the predictions whose answer the model was not shown."""

    loss_interval: Interval
    accuracy_interval: Interval


@dataclass(frozen=True)
class Summary(Hidden):
    """Means over all predictions, losses in nats. `hidden` and `bits_per_character` (None without a
    number of characters) leave out tokens that masking keeps."""

    perplexity: float
    top5_accuracy: float
    num_samples: int
    num_groups: int
    bits_per_character: float | None
    hidden: Hidden


@dataclass(frozen=True)
class Difference:
    """A mean difference of two losses in nats, and its confidence interval."""

    difference: float
    difference_interval: Interval

    @property
    def tone(self) -> Literal["better", "worse", "even"]:
        """Whether the first loss is better beyond chance, worse beyond chance, or neither."""
        low, high = self.difference_interval
        return "better" if high < 0 else "worse" if low > 0 else "even"


@dataclass(frozen=True)
class Counted:
    """What a baseline counted: text tokens, in how many samples of how many."""

    tokens: int
    samples: int
    of_samples: int


@dataclass(frozen=True)
class Baseline(Difference):
    """A baseline at the model's positions, and what it `sees`. `hidden` and `difference` (the
    model's loss minus its own) are those where the model is not shown the token itself."""

    loss: float
    perplexity: float
    accuracy: float
    top5_accuracy: float
    bits_per_character: float | None
    hidden: Subset
    sees: str
    counted: Counted
    weights: dict[str, float] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class FrequencyBand(Subset):
    """Tokens of a range of ranks by frequency in train, the last open above (None)."""

    label: str
    first_rank: int
    last_rank: int | None


@dataclass(frozen=True)
class PositionBin(Subset):
    """A stretch of the sequence, both ends included, places from 0."""

    first: int
    last: int


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
    expected_calibration_error: float
    bins: list[Bin]


@dataclass(frozen=True)
class FirstGuess:
    text: str
    probability: float
    correct: bool


@dataclass(frozen=True)
class PredictedToken:
    """A token's text; `truth` says whether it was to be predicted, `predicted` how it was."""

    text: str
    truth: bool
    predicted: FirstGuess | None


@dataclass(frozen=True)
class PredictedSample:
    """Sample `index` of the test split, without padding, with the means over its predictions."""

    index: int
    loss: float
    accuracy: float
    tokens: list[PredictedToken]


@dataclass(frozen=True)
class ExtremeSamples:
    """The samples that were predicted best and worst."""

    best: list[PredictedSample]
    worst: list[PredictedSample]


@dataclass(frozen=True)
class ScoredPair:
    """A pair of sentences and their pseudo-log-likelihoods in nats."""

    acceptable: str
    unacceptable: str
    scores: tuple[float, float]
    correct: bool


@dataclass(frozen=True)
class MinimalPairs:
    accuracy: float
    pairs: list[ScoredPair]


@dataclass(frozen=True)
class GroupSums:
    """Sums by group of the test split, for pairing one run with another."""

    loss: list[float]
    correct: list[int]
    predictions: list[int]


@dataclass(frozen=True)
class EvaluationFigures(_Rounded):
    """Every figure of a run's model on the test split; `train` and the `gap` to it are None if no
    sample of train was scored, `group_by` if the shards have no groups. `settings` are those that
    the figures depend on, `digests` the sha256 of model, tokenizer and manifest."""

    format_version: int = field(default=2, kw_only=True)
    run: str
    test: Summary
    train: Summary | None
    gap: Difference | None
    baselines: dict[str, Baseline]
    frequency_bands: list[FrequencyBand]
    positions: list[PositionBin]
    word_initial: dict[str, Subset]
    shown_as: dict[str, Subset]
    calibration: Calibration
    samples: ExtremeSamples
    minimal_pairs: MinimalPairs | None
    verdicts: list[Verdict]
    group_by: str | None
    group_sums: GroupSums
    settings: dict[str, Any]
    digests: dict[str, str]


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

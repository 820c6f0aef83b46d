"""The JSON files that the jobs of a fine-tuning write before metrics.json."""

from dataclasses import dataclass, field

from mlm.foundations.typed_artefacts import OPTIONAL, Artefact


@dataclass(frozen=True)
class ExampleSource:
    """Where the examples come from; of a file, its name and sha256."""

    kind: str
    name: str | None = field(default=None, metadata=OPTIONAL)
    sha256: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class TargetSummary:
    """The targets of a regression."""

    mean: float
    standard_deviation: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class ExampleData:
    """The examples of a fine-tuning: `splits` of pretraining and `classes` by their examples.

    `folds` are the folds' sizes; `target` is that of a regression, `classes` of a
    classification.
    """

    task: str
    source: ExampleSource
    examples: int
    groups: int
    words: int
    splits: dict[str, int]
    folds: list[int]
    target: TargetSummary | None = field(default=None, metadata=OPTIONAL)
    classes: dict[str, int] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class ExamplesSummary(ExampleData, Artefact):
    """The summary beside the table of examples."""


@dataclass(frozen=True)
class LearnedAndHeldOut:
    """Numbers of examples."""

    learned: int
    held_out: int


@dataclass(frozen=True)
class Device:
    """The devices that trained a fold."""

    platform: str
    count: int


@dataclass(frozen=True)
class TrainingRecord:
    """One training of a fold: its last epoch, and its best."""

    seed: int
    epochs: int
    train_loss: float
    validation_loss: float
    score: float
    best_epoch: int
    best_score: float


@dataclass(frozen=True)
class FoldRecord(Artefact):
    """A fold of one start."""

    run: str
    start: str
    fold: int
    task: str
    examples: LearnedAndHeldOut
    truncated: int
    device: Device
    precision: str
    trainings: list[TrainingRecord]


@dataclass(frozen=True)
class RidgeChoice:
    """The terms and penalty with which the baseline predicts `fold`."""

    terms: str
    penalty: float
    error: float
    fold: int


@dataclass(frozen=True)
class RidgeRecord(Artefact):
    """The baseline's settings and its choices."""

    task: str
    examples: int
    penalties: list[float]
    chosen: list[RidgeChoice]

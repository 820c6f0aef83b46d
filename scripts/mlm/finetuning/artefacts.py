"""The JSON files that the jobs of a fine-tuning write before metrics.json."""

from dataclasses import dataclass, field
from typing import Any

from mlm.foundations.artefacts import OPTIONAL, Artefact


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
    """A fold of one start: numbers of `examples` learned and held_out, `seeds` of the trainings. Of
    a published encoder, `run` is None, and `encoder` the sha256 of the checkpoint."""

    run: str | None
    start: str
    fold: int
    task: str
    examples: dict[str, int]
    truncated: int
    device: dict[str, Any]
    precision: str
    seeds: list[int]
    encoder: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class RidgeChoice:
    """The terms and penalty with which the baseline predicts `fold`."""

    terms: str
    penalty: float
    error: float
    fold: int


@dataclass(frozen=True)
class RidgeRecord(Artefact):
    task: str
    examples: int
    penalties: list[float]
    chosen: list[RidgeChoice]

"""`results/tokenizer/tokenizer_stats.json`."""

from dataclasses import dataclass, field

from mlm.foundations.artefacts import OPTIONAL, Artefact


@dataclass(frozen=True)
class SplitStatistics:
    """How a tokenizer fits a split, or an even sample of it (`sampled`), without the special tokens
    around documents; rates are None if there is nothing to divide by."""

    tokens: int
    words: int
    bytes: int
    characters: int
    tokens_per_word: float | None
    tokens_per_byte: float | None
    unknown: int
    unknown_rate: float | None
    vocabulary_used: int
    special_literals: int
    sampled: bool | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class TrainedOn:
    """The text that a tokenizer was trained on; `sampled`: not all of train."""

    documents: int
    bytes: int
    sampled: bool


@dataclass(frozen=True)
class Pretrained:
    """Where a ready tokenizer came from: a directory's name, or a repository at a revision."""

    path: str
    revision: str | None


@dataclass(frozen=True)
class TokenizerStatistics(Artefact):
    """The tokenizer and its fit; `training` is None if it came ready, from `pretrained`."""

    kind: str
    vocabulary_size: int
    special_ids: dict[str, int]
    unknown_literal: str | None
    splits: dict[str, SplitStatistics]
    training: TrainedOn | None
    pretrained: Pretrained | None = field(default=None, metadata=OPTIONAL)

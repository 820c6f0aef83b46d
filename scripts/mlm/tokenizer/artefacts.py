"""What `results/tokenizer/tokenizer_stats.json` says of the tokenizer."""

from dataclasses import dataclass, field

from mlm.foundations.typed_artefacts import OPTIONAL, Artefact


@dataclass(frozen=True)
class SplitStatistics:
    """How a tokenizer fits a split; rates are None if there is nothing to divide by.

    Tokens are counted without the two that stand around each document; words are what stands
    between white space; bytes are UTF-8. `sampled`: all is of an even sample of a large split.
    """

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
class FrequentToken:
    """A token and how often it stands in what was looked at of the train split."""

    id: int
    token: str
    count: int


@dataclass(frozen=True)
class TrainedOn:
    """The text that a tokenizer was trained on; `sampled`: not all of the train split."""

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
    """The tokenizer and its fit; `training` is None if it came ready, from `pretrained`.

    `pieces_by_length` counts the vocabulary's pieces by their number of characters.
    """

    kind: str
    vocabulary_size: int
    byte_fallback: bool
    special_ids: dict[str, int]
    unknown_literal: str | None
    splits: dict[str, SplitStatistics]
    most_frequent: list[FrequentToken]
    pieces_by_length: dict[int, int]
    training: TrainedOn | None
    pretrained: Pretrained | None = field(default=None, metadata=OPTIONAL)

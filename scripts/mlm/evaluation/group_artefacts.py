"""What evaluation.json says of the groups of the test text."""

from dataclasses import dataclass, field

from mlm.foundations.typed_artefacts import OPTIONAL


@dataclass(frozen=True)
class BitsOfGroup:
    """A group, or a source of a mix: bits per character where the answer is hidden. The interval
    resamples its groups, or its samples if it has one group. `characters` are those of all its
    text."""

    name: str
    bits_per_character: float
    bits_per_character_interval: tuple[float, float]
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

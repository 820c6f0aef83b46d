"""The answer to a question, as `scripts/ask.py --json` prints it.

Documents, samples and tokens are counted from 0, as in the files; steps and epochs from 1: step n
is the n-th update of the weights, and the n-th row of a log with `log_every: 1`.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Token:
    """A token of the passage: its place in the sample, its id and its text."""

    place: int
    id: int
    text: str


@dataclass(frozen=True)
class Masked:
    """A target, and what the model saw in its place: the mask token, a random token or itself."""

    place: int
    kind: Literal["mask", "random", "itself"]
    shown_id: int
    shown: str


@dataclass(frozen=True)
class Use:
    """An update that used the sample; `reached` if the training is known to have made it."""

    step: int
    epoch: int
    reached: bool
    masked: tuple[Masked, ...]


@dataclass(frozen=True)
class Check:
    """Where a sample was used without training on it, in words, and its targets there; None if
    they are not computed."""

    where: str
    masked: tuple[Masked, ...] | None = None


@dataclass(frozen=True)
class Part:
    """The part of a passage in one sample: number `sample` of the split, `shard_sample` of the file
    `shard`. `left_out` if the run was trained without it (`pretraining.forget`)."""

    sample: int
    shard: str
    shard_sample: int
    tokens: tuple[Token, ...]
    uses: tuple[Use, ...]
    checks: tuple[Check, ...]
    left_out: bool = False


@dataclass(frozen=True)
class Passage:
    """One occurrence of the sentence, or a passage near to it with `shared` of its words."""

    split: str
    document: int
    source: str
    text: str
    shared: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class TrainingSoFar:
    """How far the training is known to be: `reached` of `steps` updates, by the file `record`.

    A training that stopped is "under way", as far as its last saved state.
    """

    state: Literal["finished", "under way", "not begun"]
    reached: int
    steps: int
    samples_per_step: int
    samples: int
    record: str | None


@dataclass(frozen=True)
class Answer:
    """All that is known of a sentence.

    If it occurs nowhere (`exact`), the passages are the nearest. `found` counts all, `passages`
    holds the first of them. `notes` are sentences on what the figures leave out.
    """

    run: str
    question: str
    exact: bool
    words: int
    found: int
    passages: tuple[Passage, ...]
    training: TrainingSoFar
    notes: tuple[str, ...]
    format_version: int = 1

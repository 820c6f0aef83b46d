"""What a replay gives, as `scripts/ask.py --replay --json` prints it below `replay`.

Losses are in nats. Passages, samples and places are counted from 0, as in the answer; steps from 1.
"""

from dataclasses import dataclass

from mlm.asking.answer import Answer, Masked, Token


@dataclass(frozen=True)
class Guess:
    """A token that a model answers with, and its probability from 0 to 1."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Asked:
    """What a model says in one place: the loss of the token that stood there, and its first
    answers, the most probable first. Nothing is dropped out."""

    loss: float
    first: tuple[Guess, ...]


@dataclass(frozen=True)
class ReplayedToken:
    """A token that the step asked for, what stood in its place, and what the model said before the
    step and what the last one says of the very same input (None: there is none)."""

    token: Token
    masked: Masked
    before: Asked
    last: Asked | None


@dataclass(frozen=True)
class ReplayedUse:
    """A part of the answer's passage number `passage`, in a sample that the step used."""

    passage: int
    sample: int
    tokens: tuple[ReplayedToken, ...]


@dataclass(frozen=True)
class LogRow:
    """A row of the training's log that ends on the way, and the loss that the replay had for it."""

    step: int
    logged: float
    replayed: float

    @property
    def same(self) -> bool:
        """To the last digit of training.csv."""
        return f"{self.logged:.6f}" == f"{self.replayed:.6f}"


@dataclass(frozen=True)
class Replay:
    """The step `step`, made again: `loss` is what it trained on, the mean over its `samples`.

    It was made from the state after `begun_at` steps in the directory `state`, or, where that is
    None, from the initial weights. `last_step` is that of the model that is asked last, and
    `last_model` where it was read (None twice: there is none).
    """

    step: int
    loss: float
    samples: int
    begun_at: int
    state: str | None
    last_step: int | None
    last_model: str | None
    log: tuple[LogRow, ...]
    uses: tuple[ReplayedUse, ...]


def not_looked_at(answer: Answer) -> str:
    """That only some of the passages were looked at, where it is so."""
    shown = len(answer.passages)
    if answer.found <= shown:
        return ""
    return (
        f"Of the {answer.found:,} passages only the {shown:,} above were looked at: --most "
        f"{answer.found} takes in all."
    )

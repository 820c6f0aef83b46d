"""The answer to a question, as `scripts/ask.py --json` prints it.

Documents, samples and tokens are counted from 0, as in the files; steps and epochs from 1: step n
is the n-th update of the weights, and the n-th row of a log with `log_every: 1`.
"""

from dataclasses import dataclass
from typing import Literal

from mlm.samples.artefacts import LeftOut


@dataclass(frozen=True)
class Token:
    """A token of the passage: its place in the sample, its id and its text."""

    place: int
    id: int
    text: str


@dataclass(frozen=True)
class Masked:
    """A token that the model was asked for, and what stood in its place: the mask token, another
    token drawn at random, or the token itself."""

    place: int
    kind: Literal["mask", "random", "itself"]
    shown_id: int
    shown: str


@dataclass(frozen=True)
class Use:
    """One update that used the sample; `reached` says whether the training is known to have made
    it."""

    step: int
    epoch: int
    reached: bool
    masked: tuple[Masked, ...]


@dataclass(frozen=True)
class Check:
    """Where a sample was looked at without training on it, in words; `masked` are the tokens asked
    for there, None where they are not computed."""

    where: str
    masked: tuple[Masked, ...] | None = None


@dataclass(frozen=True)
class Part:
    """The part of a passage that stands in one sample.

    `sample` is its index in the split, `shard_sample` that in the file `shard`. `left_out` says
    that the run was trained without it (`pretraining.forget`).
    """

    sample: int
    shard: str
    shard_sample: int
    tokens: tuple[Token, ...]
    uses: tuple[Use, ...]
    checks: tuple[Check, ...]
    left_out: bool = False


@dataclass(frozen=True)
class Passage:
    """One place where the sentence, or what is nearest to it, stands.

    `document` and `source` are None where the shards came without text. `shared` of the sentence's
    `words` (tokens, without text) stand there: all of them where it is exact.
    """

    split: str
    document: int | None
    source: str | None
    text: str
    shared: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class TrainingSoFar:
    """How far the training is known to be: `reached` of `steps` updates, by the file `record`.

    `state` is "finished", "under way" (or stopped: the last saved state counts) or "not begun".
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

    `exact` says whether it stands somewhere as it is; else the passages are the nearest. `found`
    counts them all, `passages` has the first. `notes` are sentences on what the figures leave out.
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


@dataclass(frozen=True)
class Guess:
    """A token that a model answers with, and its probability from 0 to 1."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class ReplayedToken:
    """A token that a step asked for, and what stood in its place. Of the model before the step,
    without dropout: the loss of the token, in nats, and the most probable answers, best first."""

    token: Token
    masked: Masked
    loss: float
    first: tuple[Guess, ...]


@dataclass(frozen=True)
class ReplayedUse:
    """A part of the answer's passage number `passage`, from 0, in a sample that the step used."""

    passage: int
    sample: int
    tokens: tuple[ReplayedToken, ...]


@dataclass(frozen=True)
class Replay:
    """The step `step`, made again: `loss` is what it trained on, the mean over its `samples`.

    It was made from the state after `begun_at` steps in the directory `state`, or, where that is
    None, from the initial weights. `--json` has it below `replay`.
    """

    step: int
    loss: float
    samples: int
    begun_at: int
    state: str | None
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


@dataclass(frozen=True)
class Forgetting:
    """What it takes to have a run without some documents of the train split.

    `left_out` are these, item by item; `documents`, `tokens` and `samples` count each once, and
    `of_documents` and `of_tokens` the whole split. `first_step` is the first update that depends
    on them, 0 where the initial weights do, None where the run never does. `states` are the steps
    whose saved states can be gone on from, and `go_on_from` the run and the step of the last one
    before `first_step`, None where there is none. `configuration` are the lines for a run without
    them, None where the run is one already. `notes` are sentences on what that does not undo.
    """

    run: str
    left_out: tuple[LeftOut, ...]
    documents: int
    tokens: int
    samples: int
    of_documents: int
    of_tokens: int
    training: TrainingSoFar
    first_step: int | None
    states: tuple[int, ...]
    go_on_from: tuple[str, int] | None
    configuration: str | None
    notes: tuple[str, ...]
    format_version: int = 1

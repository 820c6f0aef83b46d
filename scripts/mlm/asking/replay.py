"""A step of a past training, made again with the training's own engine.

From the nearest saved state before it the same updates are made, on the same samples with the same
masks and dropouts, so that the weights on the way are those that the training had, bit for bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm.asking.answer import (
    Answer,
    Guess,
    Masked,
    Part,
    Replay,
    ReplayedToken,
    ReplayedUse,
    Token,
    Use,
    not_looked_at,
)
from mlm.asking.asking import Question, text_of
from mlm.asking.in_words import counted
from mlm.asking.past_run import RESULTS
from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.samples.masking import mask_batch
from mlm.samples.stored_batches import stored_batches
from mlm.samples.tfrecord import decode_samples
from mlm.tokenizer.encoding import Encoder

#: Answers of a model in one place.
FIRST = 5
#: Steps that a message names.
_NAMED = 20


@dataclass(frozen=True)
class ChosenUse:
    """A use of a part of the answer's passage number `passage`, from 0."""

    passage: int
    part: Part
    use: Use

    @property
    def asked(self) -> list[tuple[Token, Masked]]:
        """The tokens that the model was asked for."""
        tokens = {token.place: token for token in self.part.tokens}
        return [(tokens[masked.place], masked) for masked in self.use.masked]


def chosen_uses(answer: Answer, step: int | None = None) -> list[ChosenUse]:
    """The uses of the answer's passages at `step`; without one, at the first step that asked for
    a token of them, or else used them at all.

    Raises MlmError, saying why, where there is no such step, or the training has not made it.
    """
    training, run = answer.training, answer.run
    uses = [
        ChosenUse(number, part, use)
        for number, passage in enumerate(answer.passages)
        for part in passage.parts
        for use in part.uses
    ]
    if training.state == "not begun":
        raise MlmError(f"Run {run}: no training of it is known, so that no step can be made again")
    if not uses:
        raise MlmError(_why_none(answer))
    known = {one.use.step: one.use.reached for one in sorted(uses, key=lambda u: u.use.step)}
    reached = [one for one in uses if one.use.reached]
    if step is None:
        if not reached:
            raise MlmError(
                f"Run {run} has made {training.reached:,} of its {training.steps:,} steps, none of "
                f"which used the passage. Steps that will: {_steps(known)}"
            )
        step = min(o.use.step for o in [o for o in reached if o.use.masked] or reached)
    if step not in known:
        if step > training.steps:
            raise MlmError(f"--replay {step}: run {run} has {training.steps:,} steps")
        raise MlmError(
            f"--replay {step}: this step of run {run} did not use the passage. Steps that do: "
            f"{_steps(known)}. {not_looked_at(answer)}".rstrip(". ")
        )
    if not known[step]:
        raise MlmError(
            f"--replay {step}: run {run} has made {training.reached:,} of its {training.steps:,} "
            f"steps by its last saved state, {training.record}. This one can be made again once "
            "the training has made it"
        )
    return [one for one in uses if one.use.step == step]


def _why_none(answer: Answer) -> str:
    """Why no step used a passage of the answer."""
    if not answer.passages:
        return "The sentence stands nowhere, so that there is no step to be made again"
    if any(part.left_out for passage in answer.passages for part in passage.parts):
        return (
            f"Run {answer.run} was trained without this passage (pretraining.forget): no step was "
            "shown it, so that there is none to be made again"
        )
    subject = "The sentence stands" if answer.exact else "What is nearest to the sentence stands"
    splits = list(dict.fromkeys(passage.split for passage in answer.passages))
    if "train" not in splits:
        are = "is" if len(splits) == 1 else "are"
        return (
            f"{subject} in {' and '.join(splits)} alone, which {are} held out: no step trained on "
            "it, so that there is none to be made again"
        )
    return (
        f"{subject} in samples that none of the {answer.training.steps:,} steps of run "
        f"{answer.run} uses, so that there is none to be made again"
    )


def _steps(known: dict[int, bool]) -> str:
    told = [f"{step:,}{'' if done else ' (not reached)'}" for step, done in known.items()]
    more = [f"{len(told) - _NAMED:,} more"] if len(told) > _NAMED else []
    return ", ".join(told[:_NAMED] + more)


def replay(
    question: Question, answer: Answer, step: int | None = None, from_start: bool = False
) -> Replay:
    """Make a step that used the answer's passages again; see `chosen_uses` for which.

    How many steps that takes, and how far they are, is told on stderr. Raises MlmError where no
    step can be made again, where the states to go on from are gone, or where configuration, code,
    data or devices are others; with `from_start`, many steps from the initial weights are made.
    """
    chosen = chosen_uses(answer, step)
    # Not before: these imports take seconds.
    from mlm.asking.past_training import PastTraining, say

    step = chosen[0].use.step
    past = PastTraining.opened(question, answer)
    run = past.run
    engine, state = past.begin(step, from_start)
    begun_at, progress = engine.step, None
    say(
        f"{run.name}: makes step {step:,} again, {counted(step - begun_at, 'step')} from "
        + (f"the state after step {begun_at:,}, {state}" if state else "the initial weights")
    )
    while engine.step < step - 1:
        engine.advance(1)
        # The first step is compiled, which says nothing of the rate.
        progress = progress or Progress(f"{run.name}: replay", step - begun_at, "steps")
        progress.to(engine.step - begun_at)
    uses = tuple(_answered(chosen, past.logits(engine), run, step))
    loss = engine.advance(1)["loss"]
    return Replay(step, loss, run.batch_size, begun_at, state, uses)


def _answered(chosen: list[ChosenUse], logits: Any, run: Any, step: int) -> Iterator[ReplayedUse]:
    """What a model, by its `logits`, says of the chosen uses as the step was shown them."""
    encoder = Encoder.load(RESULTS / "tokenizer" / "tokenizer.json")
    # The model may have more rows than the tokenizer has ids.
    ids_of_tokenizer = len(encoder.names())
    # From the stream that the engines read.
    batches = stored_batches(run.train, run.order_from(step - 1))
    epochs, indices, records = next(batches)
    batches.close()
    for one in chosen:
        epoch = one.use.epoch - 1
        row = np.flatnonzero((indices == one.part.sample) & (epochs == epoch))[:1]
        ids, attention = decode_samples(records[row], run.train.sequence_length)
        batch = mask_batch(ids, attention, indices[row], run.plan, run.seed, epochs[row])
        places = np.array([masked.place for masked in one.use.masked], np.int32)
        given = batch["input_ids"][0], batch["attention_mask"][0], places
        rows = logits(*given) if len(places) else ()
        tokens = (
            ReplayedToken(token, masked, *_said(row, token.id, ids_of_tokenizer, encoder))
            for row, (token, masked) in zip(rows, one.asked, strict=True)
        )
        yield ReplayedUse(one.passage, one.part.sample, tuple(tokens))


def _said(
    logits: np.ndarray, token: int, ids: int, encoder: Encoder
) -> tuple[float, tuple[Guess, ...]]:
    """The loss of `token` by logits [vocabulary], and the first answers among so many ids."""
    logits = logits.astype(np.float64)
    highest = logits.max()
    log_probabilities = logits - highest - np.log(np.exp(logits - highest).sum())
    best = np.argsort(-log_probabilities[:ids], kind="stable")[:FIRST].tolist()
    first = (Guess(i, text_of(encoder, i), float(np.exp(log_probabilities[i]))) for i in best)
    return -float(log_probabilities[token]), tuple(first)

"""A step of a past training, made again with the training's own engine.

From the nearest saved state before it the same updates are made, on the same samples with the same
masks and dropouts, so that the weights on the way are those that the training had, bit for bit.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.asking.answer import Answer, Masked, Part, Token, Use
from mlm.asking.asking import RESULTS, Question, text_of
from mlm.asking.in_words import counted
from mlm.asking.replayed import (
    Asked,
    Guess,
    LogRow,
    Replay,
    ReplayedToken,
    ReplayedUse,
    not_looked_at,
)
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.samples.masking import mask_batch
from mlm.samples.stored_batches import stored_batches
from mlm.samples.tf_example import decode_samples
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
    from mlm.asking.first_answers import logits_of_engine, logits_of_exported
    from mlm.asking.past_training import PastTraining, say

    step = chosen[0].use.step
    past = PastTraining.opened(question, answer)
    run, devices, section = past.run, past.devices, past.run.pretraining
    engine, record, state = past.begin(step, from_start)
    begun_at, means = engine.step, {}
    say(
        f"{run.name}: makes step {step:,} again, {counted(step - begun_at, 'step')} from "
        + (f"the state after step {begun_at:,}, {state}" if state else "the initial weights")
    )
    questions = _Questions(chosen, run, step)
    progress = before = None
    while engine.step < step:
        if engine.step == step - 1:
            before = questions.asked_of(logits_of_engine(engine, run, devices))
        sums = engine.advance(1)
        record.add(sums, 1)
        at = engine.step
        if not (at % section.log_every and at % section.validation.every) or at == run.steps:
            means[at] = record.means()["loss"]
        # The first step is compiled, which says nothing of the rate.
        progress = progress or Progress(f"{run.name}: replay", step - begun_at, "steps")
        progress.to(at - begun_at)

    last = last_step = last_model = None
    logged: dict[int, float] = {}
    if past.summary is not None:
        logged = _logged(RESULTS / "runs" / run.name / "training.csv")
        weights = past.exported / "model.safetensors"
        if weights.exists() and file_sha256(weights) == past.summary.digests.model:
            last = questions.asked_of(logits_of_exported(past.exported, run, devices))
            last_step, last_model = run.steps, str(past.exported)
    if last is None and (newest := past.newest(engine, step)):
        last_step, last_record = newest
        last_model = f"{past.states.path}/step-{last_step:08d}"
        logged = logged or {row.step: row.loss for row in last_record.rows}
        last = questions.asked_of(logits_of_engine(engine, run, devices))
    return Replay(
        step=step,
        loss=sums["loss"],
        samples=engine.batch_size,
        begun_at=begun_at,
        state=state,
        last_step=last_step,
        last_model=last_model,
        log=tuple(LogRow(at, logged[at], m) for at, m in means.items() if at in logged),
        uses=tuple(questions.answered(before, last)),
    )


def _logged(file: Path) -> dict[int, float]:
    """Losses of training.csv by their steps; none where it is not there."""
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as stream:
        return {int(row["step"]): float(row["loss"]) for row in csv.DictReader(stream)}


class _Questions:
    """What a model is asked: the samples of the chosen uses as the step was shown them."""

    def __init__(self, chosen: list[ChosenUse], run, step: int):
        self._chosen = chosen
        self._encoder = Encoder.load(RESULTS / "tokenizer" / "tokenizer.json")
        # The model may have more rows than the tokenizer has ids.
        self._ids = len(self._encoder.names())
        # From the stream that the engines read.
        batches = stored_batches(run.train, run.order_from(step - 1))
        epochs, indices, records = next(batches)
        batches.close()
        self._inputs = []
        for one in chosen:
            epoch = one.use.epoch - 1
            row = np.flatnonzero((indices == one.part.sample) & (epochs == epoch))[:1]
            ids, attention = decode_samples(records[row], run.train.sequence_length)
            batch = mask_batch(ids, attention, indices[row], run.plan, run.seed, epochs[row])
            places = np.array([masked.place for masked in one.use.masked], np.int32)
            self._inputs.append((batch["input_ids"][0], batch["attention_mask"][0], places))

    def asked_of(self, logits) -> list[list[Asked]]:
        """What a model, by its `logits`, says of each token, use by use."""
        return [
            [
                self._said(row, token)
                for row, (token, _) in zip(logits(*given), one.asked, strict=True)
            ]
            if one.asked
            else []
            for one, given in zip(self._chosen, self._inputs, strict=True)
        ]

    def _said(self, logits: np.ndarray, token: Token) -> Asked:
        """The answers of one row of logits [vocabulary]."""
        logits = logits.astype(np.float64)
        highest = logits.max()
        log_probabilities = logits - highest - np.log(np.exp(logits - highest).sum())
        best = np.argsort(-log_probabilities[: self._ids], kind="stable")[:FIRST]
        first = tuple(
            Guess(i, text_of(self._encoder, i), float(np.exp(log_probabilities[i])))
            for i in best.tolist()
        )
        return Asked(-float(log_probabilities[token.id]), first)

    def answered(
        self, before: list[list[Asked]], last: list[list[Asked]] | None
    ) -> Iterator[ReplayedUse]:
        """The uses with what was said `before` the step, and by the `last` model."""
        for number, one in enumerate(self._chosen):
            yield ReplayedUse(
                one.passage,
                one.part.sample,
                tuple(
                    ReplayedToken(token, masked, said, last and last[number][place])
                    for place, ((token, masked), said) in enumerate(
                        zip(one.asked, before[number], strict=True)
                    )
                ),
            )

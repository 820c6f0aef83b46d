"""A step of a past training, computed again by the training's own engine: from the nearest saved
state before it the same updates are made, on the same samples with the same masks and dropouts, so
that the weights are those of the training, bit for bit."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm.asking.answer import Answer, not_looked_at
from mlm.asking.passages import Masked, Part, Token, Use, text_of
from mlm.asking.training_inputs import configuration_of, files_of_training
from mlm.config.resolution import Settings
from mlm.foundations.errors import SAME_COMMAND, MlmError, listed, printable
from mlm.foundations.phrasing import plural
from mlm.foundations.progress_line import Progress
from mlm.samples.manifests import Manifest, project_root
from mlm.samples.masking import mask_batch
from mlm.samples.split_samples import read_samples
from mlm.tokenizer.encoding import Encoder

#: Answers of a model in one place, and steps that a message names.
FIRST, _NAMED = 5, 20


@dataclass(frozen=True)
class Guess:
    """A token that a model answers with, and its probability from 0 to 1."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class ReplayedToken:
    """A target, and what the model saw in its place. Of the model before the step, without dropout:
    its loss in nats, and the most probable answers, best first."""

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
    """The step `step`, made again from the state after `begun_at` steps in the directory `state`
    (None: from the initial weights). `loss` is the mean over its `samples`, which it trained on."""

    step: int
    loss: float
    samples: int
    begun_at: int
    state: str | None
    uses: tuple[ReplayedUse, ...]


#: A use of a part of the answer's passage of that number, from 0.
ChosenUse = tuple[int, Part, Use]


def chosen_uses(answer: Answer, step: int | None = None) -> list[ChosenUse]:
    """The uses of the answer's passages at `step`; without one, at the first step with a target in
    them, or else the first that used them at all. MlmError if there is no such step, or the
    training has not made it."""
    uses = [
        (number, part, use)
        for number, passage in enumerate(answer.passages)
        for part in passage.parts
        for use in part.uses
        if use.reached
    ]
    known = sorted({use.step for _, _, use in uses})
    if step is None and uses:
        step = min([use.step for _, _, use in uses if use.masked] or known)
    if step not in known:
        training, asked = answer.training, "none of them" if step is None else f"not step {step:,}"
        told = [f"{one:,}" for one in known[:_NAMED]]
        more = [f"{len(known) - _NAMED:,} more"] if len(known) > _NAMED else []
        steps = f"; {', '.join(told + more)} did. {not_looked_at(answer)}" if known else ""
        raise MlmError(
            f"--replay: run {answer.run} has made {training.reached:,} of its {training.steps:,} "
            f"steps, and {asked} used the passage{steps}".rstrip(". ")
        )
    return [one for one in uses if one[2].step == step]


def replay(answer: Answer, settings: Settings, step: int | None = None) -> Replay:
    """Make a step that used the answer's passages again (`chosen_uses`), without writing or locking
    anything. MlmError if no saved state of the training is left that has its configuration, code,
    packages, data and devices."""
    chosen = chosen_uses(answer, step)
    # Not before: these imports take seconds.
    from mlm.training.engine import engine_of
    from mlm.training.pretrain import prepare

    step = chosen[0][2].step
    config = configuration_of(settings, answer.run)
    if config.accelerator.together:
        raise MlmError(
            f"--replay: run {answer.run!r} is trained by several processes (accelerator.start: "
            f"{config.accelerator.start}), which add up in another order than one, such as this. "
            "Without --replay the answer holds for any number of them"
        )
    prepared = prepare(config, files_of_training())
    _check_states(prepared, answer, step)
    run = prepared.run
    engine = engine_of(run, prepared.devices)
    state = _restored(prepared, engine, step)
    begun_at = engine.step
    start = f"the state after step {begun_at:,}, {state}" if state else "the initial weights"
    words = f"{run.name}: makes step {step:,} again, {plural(step - begun_at, 'step')} from {start}"
    print(printable(words), file=sys.stderr, flush=True)
    progress = None
    while engine.step < step - 1:
        engine.advance(1)
        # The first step is compiled, which says nothing of the rate.
        progress = progress or Progress(f"{run.name}: replay", step - begun_at, "steps")
        progress.to(engine.step - begun_at)
    uses = tuple(_answered(chosen, _logits(prepared, engine), prepared))
    loss = engine.advance(1)["loss"]
    return Replay(step, loss, run.batch_size, begun_at, state, uses)


def _check_states(prepared: Any, answer: Answer, step: int) -> None:
    """Raise MlmError unless the training's last state is there, and `step` is the run's own."""
    states, branch, reached = prepared.states, prepared.branch, answer.training.reached
    if reached not in states.steps():
        others = listed(f"{other}: {states.difference(other)}" for other in states.others())
        there = f"States of other trainings are there:\n{others}\n" if others else ""
        raise MlmError(
            f"{states.path}: has no saved state of run {answer.run} after step {reached:,}, so "
            f"that its steps may not be made again as they were. {there}Ask with configuration, "
            "code, packages and devices as it was trained with, or train it again: "
            f"rm results/runs/{answer.run}/training.json, then {SAME_COMMAND}"
        )
    if branch is not None and step <= branch.step:
        raise MlmError(
            f"--replay {step}: run {answer.run} continues run {branch.run} from step "
            f"{branch.step:,}, and so this step is one of that run: ask with --run {branch.run}"
        )


def _restored(prepared: Any, engine: Any, step: int) -> str | None:
    """The directory of the last whole state before update `step`, read by `engine`, if any."""
    states = prepared.states
    earlier = (states.newest_whole(only=at) for at in states.steps() if at < step)
    found = next(filter(None, earlier), None)
    if found is None and prepared.branch is not None:
        found = prepared.branch.state()
    if found is not None:
        place, engine.step, _ = found
        engine.read(place)
        return place
    if prepared.run.model.initialisation.embeddings == "cooccurrence":
        engine.start_from_counts()
    return None


def _logits(prepared: Any, engine: Any) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    """The function from `input_ids` and `attention_mask` [1, sequence] and `positions` [1, asked],
    int32, to logits [1, asked, vocabulary] of the model in `engine`, without dropout."""
    if prepared.devices.framework == "tensorflow":
        from mlm.training.in_tensorflow.prediction import masked_logits

        return lambda batch: masked_logits(engine.model, batch, training=False).numpy()

    import jax

    from mlm.evaluation.in_jax import masked_positions
    from mlm.model.architecture import Architecture

    config, weights = prepared.run.model_config, engine.exported().weights
    within = prepared.run.pretraining.attend == "document"
    logits = masked_positions(
        Architecture.of(config.to_dict()), config.cls_token_id if within else None
    )
    compiled = jax.jit(logits)
    return lambda batch: np.asarray(compiled(weights, batch))


def _answered(
    chosen: list[ChosenUse], logits: Callable[..., np.ndarray], prepared: Any
) -> Iterator[ReplayedUse]:
    """What a model, by its `logits`, says of the chosen uses as the step was shown them."""
    run, files = prepared.run, prepared.files
    encoder, manifest = Encoder.load(files.tokenizer), Manifest.read(files.manifests["train"])
    root = project_root(files.manifests["train"])
    for passage, part, use in chosen:
        (stored,) = read_samples(manifest, root, np.array([part.sample]))
        stored = stored.input_ids, stored.attention_mask.astype(np.int32), stored.index
        batch = mask_batch(*stored, run.plan, run.seed, np.array([use.epoch - 1]))
        given = {name: batch[name] for name in ("input_ids", "attention_mask")}
        given["positions"] = np.array([[masked.place for masked in use.masked]], np.int32)
        tokens = {token.place: token for token in part.tokens}
        rows = logits(given)[0] if use.masked else ()
        answers = (
            _answer(of_place, tokens[masked.place], masked, encoder)
            for of_place, masked in zip(rows, use.masked, strict=True)
        )
        yield ReplayedUse(passage, part.sample, tuple(answers))


def _answer(logits: np.ndarray, token: Token, masked: Masked, encoder: Encoder) -> ReplayedToken:
    """The loss of `token` by logits [vocabulary], and the first answers."""
    logits = logits.astype(np.float64)
    highest = logits.max()
    log_probabilities = logits - highest - np.log(np.exp(logits - highest).sum())
    # The model may have more rows than the tokenizer has ids.
    of_tokenizer = log_probabilities[: len(encoder.names())]
    best = np.argsort(-of_tokenizer, kind="stable")[:FIRST].tolist()
    first = (Guess(i, text_of(encoder, i), float(np.exp(log_probabilities[i]))) for i in best)
    return ReplayedToken(token, masked, -float(log_probabilities[token.id]), tuple(first))

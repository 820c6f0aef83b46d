"""Pretraining, from the first batch to the last save: the story of a run."""

import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from mlm.foundations.errors import MlmError
from mlm.training.branching import Branch
from mlm.training.engine import Accelerator, Engine, engine_of
from mlm.training.other_devices import Layout, newest_first
from mlm.training.periodic_actions import (
    EpochExport,
    Logging,
    PeriodicAction,
    Profiling,
    Saving,
    Show,
    Showing,
    Validation,
    not_finite,
)
from mlm.training.resolved_run import Pretraining
from mlm.training.states import StateDirectory
from mlm.training.training_log import Progress, Record, Row


@dataclass(frozen=True)
class Trained:
    """The end of a run: its engine and what is reported of the way there."""

    engine: Engine
    rows: list[Row]
    overflow: int
    devices_before: list[dict]


def pretrain(
    run: Pretraining,
    accelerator: Accelerator,
    states: StateDirectory,
    further: Sequence[PeriodicAction] = (),
    branch: Branch | None = None,
    show: Show | None = None,
) -> Trained:
    """Train from the last saved state, from `branch`, or from the start, to the end.

    `further` are periodic actions of the caller, done after those of every training; `show` is
    called with each new row of the log.

    Raises MlmError when stopped by a signal (after saving), on a loss that is not finite,
    and where the state cannot be written.
    """
    group = accelerator.group
    with ExitStack() as held:
        with group.as_one():
            held.enter_context(states.held())
        states.check_seen(group)
        engine = engine_of(run, accelerator)
        record = _begun(run, engine, states, branch, accelerator)
        tokens_per_step = engine.batch_size * run.train.sequence_length
        progress = Progress(run.name, run.steps, tokens_per_step)

        # All processes act at the same steps; one writes.
        written = states.path if group.leads else None
        validation = Validation(run, engine)
        saving = Saving(run, engine, states, record)
        logging = Logging(
            run, engine, validation, record, progress, written and f"{written}/tensorboard"
        )
        actions = [validation, logging, saving]
        if run.export_every_epochs:
            actions.append(EpochExport(run, engine, written and f"{written}/exports"))
        actions += further
        if show is not None:
            actions.append(Showing(logging, record, progress, show))
        if run.profile:
            actions.append(Profiling(run, engine, written and f"{written}/profile"))

        with _stop_signals() as signals:
            while engine.step < run.steps:
                before = engine.step
                due = [step for a in actions if (step := a.due(before)) is not None]
                step = min([before + run.steps_per_execution, run.steps, *due])
                record.add(engine.advance(step - before), step - before)
                progress.begin(step)
                if not math.isfinite(record.sums["loss"]):
                    raise not_finite("The loss is", run, engine, states)
                # Read once: a signal from here on is for the next execution.
                stopped_by = group.agreed(step, signals[0] if signals else None)
                for action in actions:
                    if action.due(before) == step or (stopped_by and action is saving):
                        action.act(step, engine)
                if stopped_by and step < run.steps:
                    raise MlmError(
                        f"Stopped by {stopped_by} after step {step} of {run.steps}. The state is "
                        f"saved in {states.path}; the same command goes on from there"
                    )
    return Trained(engine, record.rows, round(record.overflow), record.devices_before)


def _begun(
    run: Pretraining,
    engine: Engine,
    states: StateDirectory,
    branch: Branch | None,
    accelerator: Accelerator,
) -> Record:
    """The newest state in the engine, or a new start, and the record up to it."""
    restored = _newest(engine, states, accelerator)
    if restored is None and branch is not None:
        print(f"{run.name}: continues run {branch.run}", file=sys.stderr)
        with accelerator.group.as_one():
            restored = branch.restore(engine.state)
    if restored is not None:
        engine.step, record = restored[0], Record.of(restored[1])
        print(f"{run.name}: goes on from step {engine.step} of {run.steps}", file=sys.stderr)
        return record
    if others := states.others():
        print(f"{run.name}: starts anew. States of other trainings are there:", file=sys.stderr)
        for other in others:
            print(f"  {other}: {states.difference(other)}", file=sys.stderr)
        print(
            "They are not used: set back what differs to go on from one, or delete them",
            file=sys.stderr,
        )
    record = Record()
    if run.initialisation.embeddings == "cooccurrence":
        begun = time.monotonic()
        engine.start_from_counts()
        record.initialisation_seconds = time.monotonic() - begun
        print(
            f"{run.name}: word embeddings and output bias from counts of the train split, in "
            f"{record.initialisation_seconds:.1f} s",
            file=sys.stderr,
        )
        # Whoever is killed before the first save does not count again.
        states.save(0, engine.state, asdict(record))
    return record


def _newest(
    engine: Engine, states: StateDirectory, accelerator: Accelerator
) -> tuple[int, dict] | None:
    """The newest whole state in the engine, with its step and progress: each process reads the one
    that the first has found."""
    group, restored, found = accelerator.group, None, states
    with group.as_one():
        if group.leads:
            places = newest_first(states, accelerator.continues_others)
            for found in places if accelerator.framework == "jax" else [states]:
                if (restored := found.restore(engine.state)) is not None:
                    break
    told = group.told(restored and [restored[0], found.path, found.basis])
    with group.as_one():
        if told is not None and not group.leads:
            step, path, basis = told
            found = StateDirectory(path, states.keep, basis)
            restored = found.restore(engine.state, only=step)
            if restored is None:
                raise MlmError(f"{path}: no whole state after step {step} is seen there")
    if restored is not None and found.path != states.path:
        step, before = restored[0], Layout.of(found.basis)
        print(f"Goes on from {found.path}, which {before} have saved", file=sys.stderr)
        place = {"step": step, "replicas": before.replicas, "processes": before.processes}
        restored[1]["devices_before"] = [*restored[1].get("devices_before", []), place]
    return restored


@contextmanager
def _stop_signals() -> Iterator[list[str]]:
    """Collects SIGTERM and SIGINT, so that the step under way is finished and saved."""
    received: list[str] = []

    def note(number, _frame):
        received.append(signal.Signals(number).name)
        print(f"{received[-1]}: saving the state before stopping", file=sys.stderr)

    previous = {s: signal.signal(s, note) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

"""A whole training: updates, and at some of them log, which includes validation, and save, each a
`loop.PeriodicAction`; a training that diverged is stopped."""

import math
from collections.abc import Sequence
from dataclasses import asdict

from mlm.config.pretraining import Checkpoint
from mlm.foundations.errors import MlmError
from mlm.training.console import Console
from mlm.training.engine import Engine
from mlm.training.learning_rate import rate_of_step
from mlm.training.loop import PeriodicAction, Schedule, next_multiple, updates
from mlm.training.states import StateDirectory
from mlm.training.training_log import Row, TrainingLog


class Logging:
    """A row of training.csv, with validation if that is due, also for `console`."""

    def __init__(self, schedule: Schedule, log: TrainingLog, console: Console):
        self._schedule, self._log, self._console = schedule, log, console

    def due(self, step: int) -> int:
        every = self._schedule.log_every, self._schedule.validate_every
        return min(*(next_multiple(step, n) for n in every), self._schedule.steps)

    def act(self, step: int, engine: Engine) -> None:
        schedule, log = self._schedule, self._log
        validated = step % schedule.validate_every == 0 or step == schedule.steps
        validation_loss, validation_accuracy = engine.validate() if validated else (None, None)
        loss, accuracy = log.take_means()
        row = Row(
            step=step,
            epoch=schedule.epoch(step),
            loss=loss,
            accuracy=accuracy,
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            learning_rate=rate_of_step(schedule.optimizer, step),
            tokens_per_second=self._console.tokens_per_second(step),
            initialisation_seconds=None if log.rows else log.initialisation_seconds,
        )
        log.rows.append(row)
        self._console.write(row)


class Saving:
    """The state of the training, so that a kill costs time only."""

    def __init__(
        self, schedule: Schedule, checkpoint: Checkpoint, states: StateDirectory, log: TrainingLog
    ):
        self._schedule, self._checkpoint, self._states, self._log = (
            schedule,
            checkpoint,
            states,
            log,
        )

    def due(self, step: int) -> int:
        every, keep_steps = self._checkpoint.every, self._checkpoint.keep_steps
        kept = [s for s in keep_steps if s > step]
        return min(next_multiple(step, every), self._schedule.steps, *kept)

    def act(self, step: int, engine: Engine) -> None:
        """Save, unless a weight is not finite: no good state is pushed out by it."""
        finite = engine.weights_are_finite()
        check_finite(finite, "Some weights are", self._schedule, step, self._states)
        self._states.save(step, engine, asdict(self._log))


def check_finite(
    finite: bool, what: str, schedule: Schedule, step: int, states: StateDirectory
) -> None:
    """Raise MlmError, which begins with `what`, after update number `step`, unless `finite`."""
    if finite:
        return
    saved, rate = states.steps(), rate_of_step(schedule.optimizer, step)
    kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    raise MlmError(
        f"{schedule.name}: {what} not finite at step {step} (learning rate {rate:.3g}). {kept} in "
        f"{states.path}. Try a lower learning_rate in {schedule.section}, a longer warmup_ratio, "
        "max_grad_norm: 1.0, or accelerator.precision: float32"
    )


def train(
    engine: Engine,
    schedule: Schedule,
    checkpoint: Checkpoint,
    states: StateDirectory,
    log: TrainingLog,
    steps_per_execution: int,
    further: Sequence[PeriodicAction] = (),
) -> None:
    """Advance `engine` to the last step, with `further` actions beside logging and saving; MlmError
    on a loss that is not finite, and when stopped by a signal, after saving."""
    console, saving = Console(schedule), Saving(schedule, checkpoint, states, log)
    actions = [Logging(schedule, log, console), saving, *further]
    group = engine.devices.group
    how = log.sums, saving, steps_per_execution, group
    for step in updates(engine, schedule.steps, actions, *how):
        console.advanced(step)
        finite = math.isfinite(log.sums.by_name["loss"])
        check_finite(finite, "The loss is", schedule, step, states)

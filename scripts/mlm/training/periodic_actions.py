"""A whole training: updates, and at some of them log, which includes validation, and save, each a
`loop.PeriodicAction`; a training that diverged is stopped."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

import psutil

from mlm.config.pretraining import Checkpoint
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.training.engine import Engine
from mlm.training.loop import PeriodicAction, Schedule, next_multiple, updates
from mlm.training.optimizers import rate_of_step
from mlm.training.states import StateDirectory
from mlm.training.training_log import Row, TrainingLog

#: Seconds between two lines on stderr.
_BETWEEN_LINES = 5.0


class Logging:
    """A row of the log, with validation if due, and lines on stderr."""

    def __init__(self, schedule: Schedule, log: TrainingLog):
        self._schedule, self._log, self._figure = schedule, log, ""
        self._began, self._last_line = time.monotonic(), 0.0
        #: Time and step of the first execution, and of the last row.
        self._compiled: tuple[float, int] | None = None
        self._window = 0.0, 0

    def advanced(self, step: int) -> None:
        """Show that `step` updates are made."""
        if self._compiled is None:
            self._compiled = self._window = time.monotonic(), step
            took = timedelta(seconds=round(self._compiled[0] - self._began))
            print(f"{self._schedule.name}: compiled in {took}", file=sys.stderr)
            self._progress = Progress("training", self._schedule.steps, "steps", step)
        else:
            self._progress.to(step, self._figure)

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
            tokens_per_second=self._tokens_per_second(step),
            initialisation_seconds=None if log.rows else log.initialisation_seconds,
        )
        log.rows.append(row)
        self._print(row)

    def _tokens_per_second(self, step: int) -> float | None:
        """The speed since the last row; None at the step that compiled."""
        now = time.monotonic()
        (then, before), self._window = self._window, (now, step)
        tokens = self._schedule.tokens(step) - self._schedule.tokens(before)
        return tokens / max(now - then, 1e-9) if step > before else None

    def _print(self, row: Row) -> None:
        """Print a line about the row, unless the last one is recent."""
        self._figure = "no prediction" if row.loss is None else f"loss {row.loss:.3f}"
        steps, now = self._schedule.steps, time.monotonic()
        then, first = self._compiled or (now, 0)
        if now - self._last_line < _BETWEEN_LINES and row.step < steps:
            return
        self._last_line = now
        parts = [f"{self._schedule.name}: step {row.step}/{steps}", self._figure]
        if row.validation_loss is not None:
            parts.append(f"validation {row.validation_loss:.3f}")
        if row.accuracy is not None:
            parts.append(f"accuracy {row.accuracy:.1%}")
        memory = psutil.Process().memory_info().rss / 1e9
        parts += [f"learning rate {row.learning_rate:.2e}", f"{memory:.1f} GB"]
        if row.tokens_per_second is not None:
            left = (now - then) / (row.step - first) * (steps - row.step)
            parts.append(f"{row.tokens_per_second:,.0f} tokens/s")
            parts.append(f"{timedelta(seconds=round(left))} left")
        print(", ".join(parts), file=sys.stderr)


class Saving:
    """The state of the training, so that a kill costs time only."""

    def __init__(
        self, schedule: Schedule, checkpoint: Checkpoint, states: StateDirectory, log: TrainingLog
    ):
        self._schedule, self._checkpoint = schedule, checkpoint
        self._states, self._log = states, log

    def due(self, step: int) -> int:
        extra = [s for s in self._checkpoint.keep_steps if s > step]
        return min(next_multiple(step, self._checkpoint.every), self._schedule.steps, *extra)

    def act(self, step: int, engine: Engine) -> None:
        """Save, unless a weight is not finite: no good state is pushed out by it."""
        self.check(engine.weights_are_finite(), "some weights are", step)
        self._states.save(step, engine, asdict(self._log))

    def check(self, finite: bool, what: str, step: int) -> None:
        """Raise MlmError, which names `what`, after update number `step`, unless `finite`."""
        if finite:
            return
        saved, rate = self._states.steps(), rate_of_step(self._schedule.optimizer, step)
        last = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
        raise MlmError(
            f"{self._schedule.name}: {what} not finite at step {step} (learning rate {rate:.3g}). "
            f"{last} in {self._states.path}. Try a lower {self._schedule.section}.learning_rate, "
            "a longer warmup_ratio, max_grad_norm: 1.0, or accelerator.precision: float32"
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
    logging, saving = Logging(schedule, log), Saving(schedule, checkpoint, states, log)
    how = log.sums, saving, steps_per_execution, engine.devices.group
    for step in updates(engine, schedule.steps, [logging, saving, *further], *how):
        logging.advanced(step)
        saving.check(math.isfinite(log.sums.by_name["loss"]), "the loss is", step)

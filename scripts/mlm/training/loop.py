"""The loop of every training: update, log with validation, save; and the log that it writes."""

import math
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import psutil

from mlm.config.pretraining import Checkpoint
from mlm.foundations.errors import MlmError
from mlm.foundations.signals import noted_signals
from mlm.foundations.terminal import Progress
from mlm.training.engine import Engine
from mlm.training.optimizers import rate_of_step
from mlm.training.saved_states import StateDirectory
from mlm.training.train_step import Task

#: How training.csv shows a column; other fractions have six digits.
_FORMATS = {"epoch": ".4f", "learning_rate": ".6e", "tokens_per_second": ".0f"}
#: Seconds between two lines on stderr, and between two checks for a signal.
_BETWEEN_LINES, _AT_ONCE = 5.0, 1.0


class DivergedError(MlmError):
    """A loss or a weight is not finite."""


@dataclass
class Row:
    """One line of training.csv; losses in nats. `loss` and `accuracy` are means over the
    predictions since the last row, None without any; the speed leaves out the first compilation
    and validations."""

    step: int
    epoch: float
    loss: float | None
    accuracy: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    tokens_per_second: float | None

    def cells(self) -> list[str]:
        """The row as text."""
        return [
            "" if x is None else format(x, _FORMATS.get(n, ".6f" if isinstance(x, float) else ""))
            for n, x in asdict(self).items()
        ]


@dataclass
class TrainingLog:
    """The progress that is saved beside the arrays: rows so far, sums by name since the last row,
    totals up to it. `first_loss` is the validation loss of a warm start before its first step."""

    rows: list[Row] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    overflow: float = 0.0
    predictions: float = 0.0
    first_loss: float | None = None

    def add(self, metrics: dict[str, float]) -> None:
        """Add the sums over some steps."""
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in metrics.items()}

    def take_means(self) -> tuple[float | None, float | None]:
        """Return mean loss and accuracy, None if not measured; the sums start anew."""
        sums, self.sums = self.sums, {}
        self.overflow += sums["overflow"]
        self.predictions += sums["predictions"]
        if not sums["predictions"]:
            return None, None
        accuracy = sums["accuracy"] / sums["predictions"] if "accuracy" in sums else None
        return sums["loss"] / sums["predictions"], accuracy

    @classmethod
    def of(cls, saved: dict) -> "TrainingLog":
        """Return the log of which `asdict` made `saved`."""
        values: dict[str, Any] = saved | {"rows": [Row(**row) for row in saved["rows"]]}
        return cls(**values)


class Clock:
    """The speed of a training, and its lines on stderr."""

    def __init__(self, task: Task):
        self._task, self._progress, self._figure = task, None, ""
        self._began = self._row_time = time.monotonic()
        self._row_step, self._last_line = 0, 0.0

    def advanced(self, step: int) -> None:
        """Show the progress after `step` updates; the first call ends the compilation."""
        if self._progress is not None:
            self._progress.to(step, self._figure)
            return
        self._row_time, self._row_step = time.monotonic(), step
        took = timedelta(seconds=round(self._row_time - self._began))
        print(f"{self._task.name}: compiled in {took}", file=sys.stderr)
        self._progress = Progress("training", self._task.steps, "steps", step)

    def tokens_per_second(self, step: int) -> float | None:
        """Return the speed since the last row; None at the step that compiled."""
        now, before = time.monotonic(), self._row_step
        seconds, self._row_time, self._row_step = now - self._row_time, now, step
        tokens = self._task.tokens(step) - self._task.tokens(before)
        return tokens / max(seconds, 1e-9) if step > before else None

    def restart(self) -> None:
        """Leave out of the next speed what took the time until now."""
        self._row_time = time.monotonic()

    def print(self, row: Row) -> None:
        """Print a line about the row, unless the last one is recent."""
        self._figure = "no prediction" if row.loss is None else f"loss {row.loss:.3f}"
        now = time.monotonic()
        if now - self._last_line < _BETWEEN_LINES and row.step < self._task.steps:
            return
        self._last_line = now
        parts = [f"{self._task.name}: step {row.step}/{self._task.steps}", self._figure]
        if row.validation_loss is not None:
            parts.append(f"validation {row.validation_loss:.3f}")
        if row.accuracy is not None:
            parts.append(f"accuracy {row.accuracy:.1%}")
        memory = psutil.Process().memory_info().rss / 1e9
        parts += [f"learning rate {row.learning_rate:.2e}", f"{memory:.1f} GB"]
        if row.tokens_per_second is not None:
            parts.append(f"{row.tokens_per_second:,.0f} tokens/s")
        print(", ".join(parts), file=sys.stderr)


def train(
    engine: Engine,
    task: Task,
    checkpoint: Checkpoint,
    states: StateDirectory,
    log: TrainingLog,
) -> None:
    """Advance `engine` to the last step of `task`. After SIGTERM or SIGINT the updates under way
    are finished, the state is saved, and MlmError is raised, in all processes after the same
    update. Raises DivergedError, and saves nothing, if a loss or a weight is not finite."""
    clock, group, at_once = Clock(task), engine.devices.group, 1
    # Steps per call: about a second of them, since to read the loss is to wait for the devices. One
    # if processes must stop at the same step, or if virtual devices might deadlock with several.
    virtual = engine.devices.kind == "cpu" and engine.devices.replicas > 1
    one_by_one = group.count > 1 or virtual
    with noted_signals("saving the state before stopping") as signals:
        while engine.step < task.steps:
            began, before = time.monotonic(), engine.step
            to_validate = min(_next_multiple(before, task.validate_every), task.steps)
            to_log = min(_next_multiple(before, task.log_every), to_validate)
            later = (step for step in checkpoint.keep_steps if step > before)
            to_save = min(_next_multiple(before, checkpoint.every), task.steps, *later)
            step = min(before + at_once, to_log, to_save)
            log.add(engine.advance(step - before))
            clock.advanced(step)
            _check_finite(math.isfinite(log.sums["loss"]), "the loss is", task, states, step)
            if not one_by_one:
                fit = int(_AT_ONCE / max(time.monotonic() - began, 1e-3) * (step - before))
                at_once = max(1, min(fit, 2 * at_once))
            # Read once: a later signal stops the training after the next steps.
            stopped_by = group.any_stop_signal(signals[0] if signals else None)
            if step == to_log:
                rate, speed = rate_of_step(task.optimizer, step), clock.tokens_per_second(step)
                validated = None, None
                if step == to_validate:
                    validated = engine.validate()
                    finite = math.isfinite(validated[0] or 0)
                    _check_finite(finite, "the validation loss is", task, states, step)
                    clock.restart()
                means = log.take_means()
                log.rows.append(Row(step, task.epoch(step), *means, *validated, rate, speed))
                clock.print(log.rows[-1])
            if step == to_save or stopped_by:
                finite = engine.weights_are_finite()
                _check_finite(finite, "some weights are", task, states, step)
                states.save(step, engine.saved, asdict(log))
            if stopped_by and step < task.steps:
                group.leave()  # Waits for rank 0 to save: the end of one process ends all.
                raise MlmError(
                    f"Stopped by {stopped_by} after step {step} of {task.steps}. The state is "
                    "saved; the same command resumes from it"
                )


def _next_multiple(step: int, every: int) -> int:
    """The first multiple of `every` after `step`."""
    return (step // every + 1) * every


def _check_finite(finite: bool, what: str, task: Task, states: StateDirectory, step: int) -> None:
    """Raise DivergedError unless `what` is `finite`, before a save would replace a good state."""
    if finite:
        return
    saved, rate = states.steps(), rate_of_step(task.optimizer, step)
    last = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    raise DivergedError(
        f"{task.name}: {what} not finite at step {step} (learning rate {rate:.3g}). "
        f"{last} in {states.path}. Try a lower {task.section}.learning_rate, "
        "a longer warmup, max_grad_norm: 1.0, or accelerator.precision: float32"
    )

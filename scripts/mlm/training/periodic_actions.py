"""What is done now and then beside the updates: validate, log, save, export, profile.

Each says at which step it is next due and what it does there. None changes a weight.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.training.engine import Engine
from mlm.training.optimisation import learning_rate
from mlm.training.resolved_run import Pretraining
from mlm.training.states import StateDirectory
from mlm.training.training_log import Events, Progress, Record, Row


class PeriodicAction(Protocol):
    """Something done at some of the steps."""

    def due(self, step: int) -> int | None:
        """The first step after `step` at which this acts, or None where it never will again."""

    def act(self, step: int, engine: Engine) -> None:
        """Do it: `engine` has just made update number `step`."""


def next_multiple(step: int, every: int) -> int:
    """The first multiple of `every` after `step`."""
    return (step // every + 1) * every


def rate_of_step(run: Pretraining, step: int) -> float:
    """The learning rate of update number `step`, from 1."""
    return float(learning_rate(run.optimizer, np.float32(step - 1), np))


def not_finite(what: str, run: Pretraining, engine: Engine, states: StateDirectory) -> MlmError:
    """The error of a training that has diverged; `what` is not finite."""
    saved, rate = states.steps(), rate_of_step(run, engine.step)
    kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    return MlmError(
        f"{what} not finite at step {engine.step} (learning rate {rate:.3g}). "
        f"{kept} in {states.path}. Try a lower pretraining.optimizer.learning_rate, a "
        "longer warmup_ratio, max_grad_norm: 1.0, or accelerator.precision: float32"
    )


class DoneElsewhere:
    """What another process does every so many steps."""

    def __init__(self, every: int):
        self._every = every

    def due(self, step: int) -> int:
        return next_multiple(step, self._every)

    def act(self, step: int, engine: Engine) -> None:
        """Nothing."""


class Validation:
    """Loss and accuracy on the validation samples, for the row that is logged next."""

    def __init__(self, run: Pretraining, engine: Engine):
        self._run, self._engine = run, engine
        self._measured: tuple[float | None, float | None] = (None, None)

    def due(self, step: int) -> int:
        return min(next_multiple(step, self._run.validation_every), self._run.steps)

    def act(self, step: int, engine: Engine) -> None:
        self._measured = self._engine.validate()

    def take(self) -> tuple[float | None, float | None]:
        """Loss and accuracy, once; None twice where nothing was measured since."""
        measured, self._measured = self._measured, (None, None)
        return measured


class Logging:
    """A row of training.csv, TensorBoard's events and the line on stderr.

    Due in its own time and wherever `validation` is, after it. Without a `directory`, another
    process writes the events.
    """

    def __init__(
        self,
        run: Pretraining,
        engine: Engine,
        validation: Validation,
        record: Record,
        progress: Progress,
        directory: str | None,
    ):
        self._run, self._engine, self._validation = run, engine, validation
        self._record, self._progress = record, progress
        self._events = Events(directory) if directory else None

    def due(self, step: int) -> int:
        return min(next_multiple(step, self._run.log_every), self._validation.due(step))

    def act(self, step: int, engine: Engine) -> None:
        means = self._record.means()
        validation_loss, validation_accuracy = self._validation.take()
        row = Row(
            step=step,
            epoch=step * self._engine.batch_size / self._run.train.num_samples,
            loss=means["loss"],
            accuracy=means["accuracy"],
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            learning_rate=rate_of_step(self._run, step),
            tokens_per_second=self._progress.rate(step),
            initialisation_seconds=(
                None if self._record.rows else self._record.initialisation_seconds
            ),
        )
        self._record.rows.append(row)
        if self._events is not None:
            self._events.add(row)
        self._progress.show(row)


@dataclass(frozen=True)
class Moment:
    """How far a training has come: rows of its log so far, and how long it will still take.

    `validated` is whether the last row has a validation.
    """

    step: int
    rows: Sequence[Row]
    seconds_left: float | None
    validated: bool


#: Shows people a moment of the training; it may ask the engine, and changes nothing.
Show = Callable[[Moment, Engine], None]


class Showing:
    """Hands each new row of the log to what shows the training, after `logging`."""

    def __init__(self, logging: Logging, record: Record, progress: Progress, show: Show):
        self._logging, self._record, self._progress = logging, record, progress
        self._show = show

    def due(self, step: int) -> int:
        return self._logging.due(step)

    def act(self, step: int, engine: Engine) -> None:
        rows = self._record.rows
        validated = rows[-1].validation_loss is not None
        left = self._progress.left(step, time.monotonic())
        self._show(Moment(step, rows, left, validated), engine)


class Saving:
    """The state of the training, so that a kill costs time only."""

    def __init__(self, run: Pretraining, engine: Engine, states: StateDirectory, record: Record):
        self._run, self._engine, self._states, self._record = run, engine, states, record

    def due(self, step: int) -> int:
        kept = [s for s in self._run.keep_steps if s > step]
        return min(next_multiple(step, self._run.checkpoint_every), self._run.steps, *kept)

    def act(self, step: int, engine: Engine) -> None:
        """Save the state, unless a weight is not finite: no good state is pushed out by it."""
        if not self._engine.weights_are_finite():
            raise not_finite("Some weights are", self._run, engine, self._states)
        self._states.save(step, self._engine.state, asdict(self._record))


class EpochExport:
    """The model in the Hugging Face layout where every so many epochs end; without a `directory`,
    another process writes it."""

    def __init__(self, run: Pretraining, engine: Engine, directory: str | None):
        self._epochs, self._directory = run.export_every_epochs, directory
        self._samples = run.export_every_epochs * run.train.num_samples
        self._batch_size = engine.batch_size

    def due(self, step: int) -> int:
        samples = next_multiple(step * self._batch_size, self._samples)
        return -(-samples // self._batch_size)

    def act(self, step: int, engine: Engine) -> None:
        if self._directory is None:
            return
        epoch = step * self._batch_size // self._samples * self._epochs
        engine.exported().write(f"{self._directory}/epoch-{epoch:04d}")


class Profiling:
    """A trace of the steps `profile[0]` to `profile[1]`; begins at once inside them. Without a
    `directory`, another process writes it."""

    def __init__(self, run: Pretraining, engine: Engine, directory: str | None):
        first, last = run.profile
        self._before, self._last = first - 1, min(last, run.steps)
        self._directory, self._tracing = directory, False
        self.act(engine.step, engine)

    def due(self, step: int) -> int | None:
        return next((edge for edge in (self._before, self._last) if edge > step), None)

    def act(self, step: int, engine: Engine) -> None:
        if self._directory is None:
            return
        inside = self._before <= step < self._last
        if inside and not self._tracing:
            engine.start_trace(self._directory)
        elif self._tracing and not inside:
            engine.stop_trace()
        self._tracing = inside

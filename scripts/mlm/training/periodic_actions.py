"""What is done now and then beside the updates, each a `loop.PeriodicAction`: log, which includes
validation, and save."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

import psutil

from mlm.training.curve_writers import CurveWriter
from mlm.training.divergence import check_weights
from mlm.training.engine import Engine
from mlm.training.loop import Row, TrainingLog, next_multiple
from mlm.training.optimisation import rate_of_step
from mlm.training.run import Run
from mlm.training.states import StateDirectory

#: Seconds between two lines on stderr.
_BETWEEN_LINES = 5.0


class Logging:
    """A row of training.csv, with validation if that is due, also for the `writers`, and at most
    every few seconds a line on stderr."""

    def __init__(self, run: Run, record: TrainingLog, writers: Sequence[CurveWriter] = ()):
        self._run, self._record, self._writers = run, record, writers
        self._began, self._last_line = time.monotonic(), 0.0
        #: Time and step of the first execution, and of the last row.
        self._compiled: tuple[float, int] | None = None
        self._window: tuple[float, int] | None = None

    def note_first(self, step: int) -> None:
        """Note the first execution, which compiles and says nothing of the ones to come; of others
        nothing."""
        if self._compiled is None:
            self._compiled = self._window = time.monotonic(), step
            took = timedelta(seconds=round(self._compiled[0] - self._began))
            print(f"{self._run.name}: compiled in {took}", file=sys.stderr)

    def due(self, step: int) -> int:
        section = self._run.pretraining
        every = section.log_every, section.validation.every
        return min(*(next_multiple(step, n) for n in every), self._run.steps)

    def act(self, step: int, engine: Engine) -> None:
        run, record = self._run, self._record
        validated = step % run.pretraining.validation.every == 0 or step == run.steps
        validation_loss, validation_accuracy = engine.validate() if validated else (None, None)
        means = record.take_means()
        row = Row(
            step=step,
            epoch=step * run.batch_size / run.train.num_samples,
            loss=means["loss"],
            accuracy=means["accuracy"],
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            learning_rate=rate_of_step(run.pretraining.optimizer, step),
            tokens_per_second=self._rate(step),
            initialisation_seconds=None if record.rows else record.initialisation_seconds,
        )
        record.rows.append(row)
        values = {k: v for k, v in asdict(row).items() if v is not None and k != "step"}
        for writer in self._writers:
            writer.write(step, values)
        if time.monotonic() - self._last_line >= _BETWEEN_LINES or step == run.steps:
            self._last_line = time.monotonic()
            self._print(row)

    def _rate(self, step: int) -> float | None:
        """Tokens per second since the last row; None at the step that compiled."""
        now = time.monotonic()
        (then, at), self._window = self._window, (now, step)
        tokens = (step - at) * self._run.batch_size * self._run.train.sequence_length
        return tokens / max(now - then, 1e-9) if step > at else None

    def _print(self, row: Row) -> None:
        (then, at), steps, pace = self._compiled, self._run.steps, ""
        if row.tokens_per_second is not None:
            left = (time.monotonic() - then) / (row.step - at) * (steps - row.step)
            pace = f", {row.tokens_per_second:,.0f} tokens/s, {timedelta(seconds=round(left))} left"
        memory = psutil.Process().memory_info().rss / 1e9
        seen = "" if row.validation_loss is None else f", validation {row.validation_loss:.3f}"
        print(
            f"{self._run.name}: step {row.step}/{steps}, loss {row.loss:.3f}{seen}, "
            f"accuracy {row.accuracy:.1%}, learning rate {row.learning_rate:.2e}, "
            f"{memory:.1f} GB{pace}",
            file=sys.stderr,
        )


class Saving:
    """The state of the training, so that a kill costs time only."""

    def __init__(self, run: Run, states: StateDirectory, record: TrainingLog):
        self._run, self._states, self._record = run, states, record

    def due(self, step: int) -> int:
        checkpoint = self._run.pretraining.checkpoint
        kept = [s for s in checkpoint.keep_steps if s > step]
        return min(next_multiple(step, checkpoint.every), self._run.steps, *kept)

    def act(self, step: int, engine: Engine) -> None:
        """Save, unless a weight is not finite: no good state is pushed out by it."""
        check_weights(engine, self._run, step, self._states)
        self._states.save(step, engine, asdict(self._record))

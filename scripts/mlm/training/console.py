"""What a training prints: progress at the terminal, and a line on stderr now and then."""

import sys
import time
from datetime import timedelta

import psutil

from mlm.foundations.terminal import Progress
from mlm.training.loop import Schedule
from mlm.training.training_log import Row

#: Seconds between two lines on stderr.
_BETWEEN_LINES = 5.0


class Console:
    """Progress and speed of a training, without its first execution, which compiles and says
    nothing of the ones to come."""

    def __init__(self, schedule: Schedule):
        self._schedule, self._figure = schedule, ""
        self._began, self._last_line = time.monotonic(), 0.0
        #: Time and step of the first execution, and of the last row.
        self._compiled: tuple[float, int] | None = None
        self._window: tuple[float, int] | None = None

    def advanced(self, step: int) -> None:
        """Show that `step` updates are made."""
        if self._compiled is None:
            self._compiled = self._window = time.monotonic(), step
            took = timedelta(seconds=round(self._compiled[0] - self._began))
            print(f"{self._schedule.name}: compiled in {took}", file=sys.stderr)
            self._progress = Progress("training", self._schedule.steps, "steps", step)
        else:
            self._progress.to(step, self._figure)

    def tokens_per_second(self, step: int) -> float | None:
        """The speed since the last call; None at the step that compiled."""
        now = time.monotonic()
        (then, at), self._window = self._window, (now, step)
        tokens = (step - at) * self._schedule.batch_size * self._schedule.sequence_length
        return tokens / max(now - then, 1e-9) if step > at else None

    def write(self, row: Row) -> None:
        """Print a line about the row, unless the last one is recent."""
        self._figure = "no prediction" if row.loss is None else f"loss {row.loss:.3f}"
        (then, at), steps, now, pace = self._compiled, self._schedule.steps, time.monotonic(), ""
        if now - self._last_line < _BETWEEN_LINES and row.step < steps:
            return
        self._last_line = now
        if row.tokens_per_second is not None:
            left = timedelta(seconds=round((now - then) / (row.step - at) * (steps - row.step)))
            pace = f", {row.tokens_per_second:,.0f} tokens/s, {left} left"
        memory = psutil.Process().memory_info().rss / 1e9
        right = "" if row.accuracy is None else f", accuracy {row.accuracy:.1%}"
        seen = "" if row.validation_loss is None else f", validation {row.validation_loss:.3f}"
        print(
            f"{self._schedule.name}: step {row.step}/{steps}, {self._figure}{seen}{right}, "
            f"learning rate {row.learning_rate:.2e}, {memory:.1f} GB{pace}",
            file=sys.stderr,
        )

"""What a training says while it runs and leaves behind: rows and a progress line."""

import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path

import psutil

from mlm.foundations.atomic import write_csv

#: Seconds between two progress lines.
_PROGRESS_INTERVAL = 5.0


@dataclass
class Row:
    """One line of training.csv; losses in nats, means over the steps since the last row.

    `initialisation_seconds`, in the first row, were spent on counting the train split.
    `tokens_per_second` leaves out the execution that compiles, and is None if there was no other.
    """

    step: int
    epoch: float
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    tokens_per_second: float | None
    initialisation_seconds: float | None = None

    def cells(self) -> list[str]:
        """The row as text; six digits, so that reading it back gives what was written."""
        digits = {
            "epoch": ".4f",
            "learning_rate": ".6e",
            "tokens_per_second": ".0f",
            "initialisation_seconds": ".2f",
        }
        return [
            ""
            if value is None
            else format(value, digits.get(name, ".6f" if isinstance(value, float) else ""))
            for name, value in asdict(self).items()
        ]


@dataclass
class TrainingLog:
    """What is saved beside the variables: rows so far, and sums since the last row."""

    rows: list[Row] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    steps_in_sums: int = 0
    overflow: float = 0.0
    initialisation_seconds: float | None = None

    def add(self, metrics: dict, steps: int) -> None:
        """Take in the summed metrics of `steps` steps."""
        for key, value in metrics.items():
            self.sums[key] = self.sums.get(key, 0.0) + float(value)
        self.steps_in_sums += steps

    def means(self) -> dict[str, float]:
        """Means since the last call; the sums start anew."""
        means = {k: v / self.steps_in_sums for k, v in self.sums.items()}
        self.overflow += self.sums.get("overflow", 0.0)
        self.sums, self.steps_in_sums = {}, 0
        return means

    @classmethod
    def of(cls, saved: dict) -> "TrainingLog":
        """From what `asdict` made of it."""
        return cls(**(saved | {"rows": [Row(**row) for row in saved["rows"]]}))


def write_rows(path: str | Path, rows: list[Row]) -> None:
    """Write training.csv atomically."""
    write_csv(path, Row.__dataclass_fields__, (row.cells() for row in rows))


@dataclass
class TrainingProgress:
    """Prints where the training is, at most every few seconds, to stderr."""

    name: str
    steps: int
    tokens_per_step: int
    _start: float = field(default_factory=time.monotonic)
    _last_print: float = 0.0
    #: Time and step of the first execution, and of the last call of `rate`.
    _compiled: tuple[float, int] | None = None
    _window: tuple[float, int] | None = None

    def begin(self, step: int) -> None:
        """Note the first execution, which compiles and tells nothing of the ones to come."""
        if self._compiled is None:
            self._compiled = self._window = time.monotonic(), step
            took = timedelta(seconds=round(self._compiled[0] - self._start))
            print(f"{self.name}: compiled in {took}", file=sys.stderr)

    def rate(self, step: int) -> float | None:
        """Tokens per second since this was last asked for, or since `begin`; None at its step."""
        now = time.monotonic()
        (then, at), self._window = self._window, (now, step)
        return (step - at) * self.tokens_per_step / max(now - then, 1e-9) if step > at else None

    def show(self, row: Row) -> None:
        """Print the row, unless one was printed a moment ago and it is not the last."""
        now = time.monotonic()
        if now - self._last_print < _PROGRESS_INTERVAL and row.step < self.steps:
            return
        self._last_print, pace = now, ""
        then, at = self._compiled
        if row.tokens_per_second is not None and row.step > at:
            left = (now - then) / (row.step - at) * (self.steps - row.step)
            pace = f", {row.tokens_per_second:,.0f} tokens/s, {timedelta(seconds=round(left))} left"
        memory = psutil.Process().memory_info().rss / 1e9
        seen = "" if row.validation_loss is None else f", validation {row.validation_loss:.3f}"
        print(
            f"{self.name}: step {row.step}/{self.steps}, loss {row.loss:.3f}{seen}, "
            f"accuracy {row.accuracy:.1%}, learning rate {row.learning_rate:.2e}, "
            f"{memory:.1f} GB{pace}",
            file=sys.stderr,
        )

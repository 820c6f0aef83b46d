"""A progress line on standard error now and then: work done, speed and time left."""

import sys
import time


class Progress:
    """Prints at most once every `seconds`, and never for work that is done sooner."""

    def __init__(self, label: str, total: int, unit: str, seconds: float = 5.0):
        self._label, self._total, self._unit, self._seconds = label, total, unit, seconds
        self._start = self._shown = time.monotonic()

    def to(self, done: int) -> None:
        """`done` of the total are done."""
        now = time.monotonic()
        if now - self._shown < self._seconds:
            return
        self._shown = now
        rate = done / (now - self._start)
        left = (self._total - done) / rate if rate else float("inf")
        print(
            f"{self._label}: {done:,} of {self._total:,} {self._unit}, "
            f"{rate:,.0f} {self._unit}/s, {left:,.0f} s left",
            file=sys.stderr,
            flush=True,
        )

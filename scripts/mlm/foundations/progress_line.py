"""Progress now and then: work done, speed and time left."""

import time

from mlm.foundations.phrasing import in_bytes, in_time
from mlm.foundations.terminal import note

#: Seconds between two lines at least.
_PRINTED = 30.0


class Progress:
    """A line now and then, more rarely the longer it takes; none for work that is done sooner.
    `done` was done before."""

    def __init__(self, label: str, total: int, unit: str, done: int = 0):
        self._label, self._total, self._unit, self._first = label, total, unit, done
        self._start = self._printed = time.monotonic()

    def to(self, done: int, figure: str = "") -> None:
        """`done` of the total are done, and `figure` is the latest result."""
        now = time.monotonic()
        if now - self._printed >= max(_PRINTED, (now - self._start) / 10):
            self._printed = now
            note(self._line(done, now, figure))

    def _line(self, done: int, now: float, figure: str) -> str:
        rate = (done - self._first) / max(now - self._start, 1e-9)
        left = f", {in_time((self._total - done) / rate)} left" if rate else ""
        shown = in_bytes if self._unit == "bytes" else "{:,.0f}".format
        unit = "" if self._unit == "bytes" else f" {self._unit}"
        speed = f"{rate:,.1f}" if rate < 10 and unit else shown(rate)
        latest = f", {figure}" if figure else ""
        return (
            f"{self._label}: {shown(done)} of {shown(self._total)}{unit}, "
            f"{speed}{unit}/s{left}{latest}"
        )

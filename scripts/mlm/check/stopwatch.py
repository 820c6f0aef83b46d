"""How long something took: by the clock, and in processor seconds."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass
class Took:
    """`seconds` that it takes on a machine that does nothing else; `cpu` of all processors."""

    seconds: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: "Took") -> "Took":
        return Took(self.seconds + other.seconds, self.cpu + other.cpu)

    def __mul__(self, times: float) -> "Took":
        return Took(self.seconds * times, self.cpu * times)


def alone(seconds: float) -> Took:
    """What keeps one processor busy for `seconds`."""
    return Took(seconds, seconds)


@contextmanager
def timed(threads: int | None = 1) -> Iterator[Took]:
    """Fills what it yields when it ends, of work that keeps up to `threads` processors busy.

    Time for which other processes have the processors is left out: it says nothing of the work.
    With None, of work on a device that is waited for, it counts.
    """
    took, begun, before = Took(), time.monotonic(), _processor_seconds()
    others = OtherWork()
    try:
        yield took
    finally:
        passed = time.monotonic() - begun
        took.cpu = _processor_seconds() - before
        if threads is None:
            took.seconds = passed
        elif threads == 1:
            took.seconds = took.cpu
        else:
            took.seconds = max(passed, took.cpu / threads)
            if others.share() > _LITTLE:
                took.seconds = min(passed, took.cpu / (_WELL_USED * threads))


#: The share of the machine that others may have without an effect, and that of their processors
#: which several threads keep busy when they are alone.
_LITTLE, _WELL_USED = 0.15, 0.85


class OtherWork:
    """What share of this machine's processors other processes have from now on."""

    def __init__(self):
        self._begun, self._busy, self._own = time.monotonic(), _busy(), _processor_seconds()

    def share(self) -> float:
        """From 0 to 1, so far."""
        passed = max(1e-3, time.monotonic() - self._begun) * (psutil.cpu_count() or 1)
        others = _busy() - self._busy - (_processor_seconds() - self._own)
        return min(1.0, max(0.0, others / passed))


def _busy() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def _processor_seconds() -> float:
    return sum(os.times()[:4])

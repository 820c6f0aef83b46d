"""The process at the terminal: its lines, its progress, and numbers in words.

Outside of a job, lines go to standard error. In a job, standard error is the log, which has the
details as well, and the terminal is another stream.
"""

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from mlm.foundations.errors import printable


class _Job:
    """The terminal of the job of this process, None outside of one, and the name of its stage."""

    stream: TextIO | None = None
    stage = ""


def set_job(stream: TextIO | None, stage: str) -> None:
    """Send lines to `stream` too, and name `stage` in progress, from now on; None ends that."""
    _Job.stream, _Job.stage = stream, stage


def show(text: str) -> None:
    """Print lines at the terminal and, in a job, in its log."""
    if _Job.stream is not None:
        _write(_Job.stream, f"{printable(text)}\n")
    if _Job.stream is not sys.stderr:
        _write(sys.stderr, f"{printable(text)}\n")


def answer(text: str) -> None:
    """Print the answer of a target on standard output and, in a job, in its log."""
    print(printable(text), flush=True)
    if _Job.stream is not None:
        _write(sys.stderr, f"{printable(text)}\n")


def note(line: str) -> None:
    """Print a line of progress, at the terminal with the stage."""
    _write(sys.stderr, f"{line}\n")
    if _Job.stream is not None:
        _write(_Job.stream, f"{_Job.stage}: {printable(line)}\n")


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a full disk; a closed stream
        stream.write(text)
        stream.flush()


class Progress:
    """A line now and then, more rarely the longer it takes; none for work that ends sooner.
    `total` is None if it is not known; `done` was done before."""

    _LEAST_SECONDS = 30.0

    def __init__(self, label: str, total: int | None, unit: str, done: int = 0):
        self._label, self._total, self._unit, self._first = label, total, unit, done
        self._start = self._printed = time.monotonic()

    def to(self, done: int, figure: str = "") -> None:
        """Report that `done` of the total are done, and that `figure` is the latest result."""
        now = time.monotonic()
        if now - self._printed >= max(self._LEAST_SECONDS, (now - self._start) / 10):
            self._printed = now
            note(self._line(done, now, figure))

    def _line(self, done: int, now: float, figure: str) -> str:
        rate = (done - self._first) / max(now - self._start, 1e-9)
        left = f", {in_time((self._total - done) / rate)} left" if rate and self._total else ""
        shown = in_bytes if self._unit == "bytes" else "{:,.0f}".format
        unit = "" if self._unit == "bytes" else f" {self._unit}"
        speed = f"{rate:,.1f}" if rate < 10 and unit else shown(rate)
        latest = f", {figure}" if figure else ""
        of_total = f" of {shown(self._total)}" if self._total else ""
        return f"{self._label}: {shown(done)}{of_total}{unit}, {speed}{unit}/s{left}{latest}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as lines with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def plural(number: int, noun: str) -> str:
    """Return a whole number with its noun, such as "3 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def signed(number: float, digits: int = 3) -> str:
    """Return a difference with its sign, a true minus, which a rounded zero does not have."""
    return f"{number:+z,.{digits}f}".replace("-", "−")


def in_bytes(size: float) -> str:
    """Return a size in kB, MB, GB or TB."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size / 1e3:.0f} kB"


def in_binary_bytes(size: float) -> str:
    """Return a size in MiB or GiB, as memory is made."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def in_time(seconds: float) -> str:
    """Return a time in the unit that suits it, roughly."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"

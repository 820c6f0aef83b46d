"""What a process shows at the terminal.

Outside of a job, that is standard error. In a job, standard error is the log, which has the details
as well, and the terminal is another stream.
"""

import contextlib
import sys
import time
from typing import TextIO

from mlm.foundations.errors import printable
from mlm.foundations.phrasing import in_bytes, in_time

#: What is written to may be closed, or a file on a full disk.
_UNWRITABLE = (OSError, ValueError)


class _Job:
    """The terminal of the job of this process, None outside of one, and the name of its stage."""

    stream: TextIO | None = None
    stage = ""


def set_job(stream: TextIO | None, stage: str) -> None:
    """From now on, lines go to `stream` as well as to standard error, and progress names `stage`;
    None ends that."""
    _Job.stream, _Job.stage = stream, stage


def show(text: str) -> None:
    """Print lines at the terminal and, in a job, in its log."""
    if _Job.stream is not None:
        _write(_Job.stream, f"{printable(text)}\n")
    if _Job.stream is not sys.stderr:
        _write(sys.stderr, f"{printable(text)}\n")


def answer(text: str) -> None:
    """Print what a target is asked for on standard output and, in a job, in its log."""
    print(printable(text), flush=True)
    if _Job.stream is not None:
        _write(sys.stderr, f"{printable(text)}\n")


def note(line: str) -> None:
    """Print a line of progress, at the terminal with the stage."""
    _write(sys.stderr, f"{line}\n")
    if _Job.stream is not None:
        _write(_Job.stream, f"{_Job.stage}: {printable(line)}\n")


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(*_UNWRITABLE):
        stream.write(text)
        stream.flush()


#: Seconds between two lines at least.
_PRINTED = 30.0


class Progress:
    """A line now and then, more rarely the longer it takes; none for work that is done sooner.
    `total` is None if it is not known; `done` was done before."""

    def __init__(self, label: str, total: int | None, unit: str, done: int = 0):
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
        left = f", {in_time((self._total - done) / rate)} left" if rate and self._total else ""
        shown = in_bytes if self._unit == "bytes" else "{:,.0f}".format
        unit = "" if self._unit == "bytes" else f" {self._unit}"
        speed = f"{rate:,.1f}" if rate < 10 and unit else shown(rate)
        latest = f", {figure}" if figure else ""
        of_total = f" of {shown(self._total)}" if self._total else ""
        return f"{self._label}: {shown(done)}{of_total}{unit}, {speed}{unit}/s{left}{latest}"

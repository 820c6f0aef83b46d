"""What a process shows at the terminal: lines, and progress drawn in place.

Outside of a job, that is standard error. In a job, standard error is the log, which has the details
as well, and the terminal is another stream.
"""

import contextlib
import os
import sys
from typing import TextIO

from mlm.foundations.errors import printable

#: Back to the beginning of the line, and clear it.
_CLEAR = "\r\033[K"
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
        _write(_Job.stream, f"{_CLEAR * draws()}{printable(text)}\n")
    if _Job.stream is not sys.stderr:
        _write(sys.stderr, f"{printable(text)}\n")


def answer(text: str) -> None:
    """Print what a target is asked for on standard output and, in a job, in its log."""
    print(printable(text), flush=True)
    if _Job.stream is not None:
        _write(sys.stderr, f"{printable(text)}\n")


def draws() -> bool:
    """Whether progress can be drawn in place."""
    return (_Job.stream or sys.stderr).isatty()


def draw(line: str) -> None:
    """Draw `line` in place, which the next line or drawing takes; an empty one clears it."""
    stream, named = _Job.stream or sys.stderr, f"{_Job.stage}: {line}".removeprefix(": ")
    with contextlib.suppress(*_UNWRITABLE):
        width = os.get_terminal_size(stream.fileno()).columns or 80
        _write(stream, f"{_CLEAR}{printable(named)[: width - 1] if line else ''}\r")


def note(line: str) -> None:
    """Print a line of progress in a job's log, and at a terminal that cannot draw."""
    in_job, drawn = _Job.stream is not None, draws()
    if in_job or not drawn:
        _write(sys.stderr, f"{line}\n")
    if in_job and not drawn:
        _write(_Job.stream, f"{_Job.stage}: {printable(line)}\n")


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(*_UNWRITABLE):
        stream.write(text)
        stream.flush()

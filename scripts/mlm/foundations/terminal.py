"""What a process shows at the terminal.

Outside of a job, that is standard error. In a job, standard error is the log, which has the details
as well, and the terminal is another stream.
"""

import contextlib
import sys
from typing import TextIO

from mlm.foundations.errors import printable

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

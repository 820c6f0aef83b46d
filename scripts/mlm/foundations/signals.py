"""How SIGINT and SIGTERM end a process."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator

from mlm.foundations.terminal import show

#: Time that a job has to clean up after SIGTERM.
_CLEAN_UP_SECONDS = 15.0


def end_by_signals() -> None:
    """Let SIGTERM and SIGINT end the process as an error does, so that its files are cleaned up."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def _end(number: int, _frame) -> None:
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    with contextlib.suppress(RuntimeError):  # in the middle of a line
        show(f"\nStopped by {signal.Signals(number).name}. The same command continues.")
    # Python drops an exception that a signal raises inside a garbage collector's callback.
    force = threading.Timer(_CLEAN_UP_SECONDS, os._exit, [128 + number])
    force.daemon = True
    force.start()
    sys.exit(128 + number)


@contextlib.contextmanager
def noted_signals(message: str | None = None) -> Iterator[list[str]]:
    """Collect the names of SIGTERM and SIGINT instead of ending; each prints the `message`."""
    names: list[str] = []

    def note_signal(number: int, _frame) -> None:
        names.append(signal.Signals(number).name)
        if message is not None:
            print(f"{names[-1]}: {message}", file=sys.stderr)

    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = {number: signal.signal(number, note_signal) for number in numbers}
    try:
        yield names
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_with_parent() -> None:
    """Have Linux send SIGTERM to this process when the one that started it ends."""
    libc, set_death_signal = ctypes.CDLL(None), 1
    if hasattr(libc, "prctl"):
        libc.prctl(set_death_signal, signal.SIGTERM)

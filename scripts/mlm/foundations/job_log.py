"""A job's log: a copy of what it prints. A failure to write it never fails the job."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from mlm.foundations.errors import printable


class Tee:
    """A text stream that writes to the terminal and, line by line, to the job's log, with hidden
    characters as escapes; but for carriage returns, with which libraries draw their progress."""

    def __init__(self, terminal: TextIO, log: "JobLog"):
        self._terminal, self._log = terminal, log

    def write(self, text: str) -> int:
        shown = "\r".join(map(printable, text.split("\r")))
        self._log.write(shown, self._terminal)
        self._terminal.write(shown)
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def close(self) -> None:
        """Nothing: both streams belong to others. Libraries close stderr when they end."""

    def isatty(self) -> bool:
        return self._terminal.isatty()


class JobLog:
    """The file; once it cannot be written to, on a full disk for instance, it is given up."""

    def __init__(self, path: str):
        self._path = path
        self._descriptor: int | None = None
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        except OSError as error:
            self._give_up(error, sys.stderr)

    def write(self, text: str, terminal: TextIO) -> None:
        """Append `text` at once; the first failure is reported on `terminal`."""
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data and self._descriptor is not None:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._give_up(error, terminal)

    def _give_up(self, error: OSError, terminal: TextIO) -> None:
        self.close()
        with contextlib.suppress(OSError):
            terminal.write(f"\nWarning: no log is written to {self._path}: {error.strerror}\n")

    def close(self) -> None:
        """End the writing."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None


@contextmanager
def logged(path: str) -> Iterator[None]:
    """Copy all that is printed meanwhile to the log at `path`, which begins empty."""
    log, terminals = JobLog(path), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (Tee(terminal, log) for terminal in terminals)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = terminals
        log.close()

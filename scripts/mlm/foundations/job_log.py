"""The log of a job: all that it prints on standard error, as does what it calls, and a copy of its
answers on standard output."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from mlm.foundations.errors import printable
from mlm.foundations.phrasing import in_exact_time
from mlm.foundations.terminal import job_terminal, show


def stage_name(rule: str, wildcards: Mapping[str, str]) -> str:
    """The stage of a job in words: `shard train 1 of 6`."""
    words = [rule.replace("_", " ")]
    for name, value in wildcards.items():
        if total := wildcards.get(f"{name}s"):
            words.append(f"{int(value) + 1} of {int(total)}")
        elif name[:-1] not in wildcards:
            words.append(value)
    return " ".join(words)


class JobLog:
    """A job from its first line to its last: opened before the imports that take seconds."""

    current: "JobLog | None" = None

    def __init__(self, job: Any):
        self._begun, self._opened = time.monotonic(), ExitStack()
        self.stage = stage_name(job.rule, dict(job.wildcards.items()))
        self._path = job.log[0]

    def open(self) -> "JobLog":
        """From now on, standard error is the log."""
        JobLog.current = self
        self._opened.callback(setattr, JobLog, "current", None)
        self._opened.enter_context(_logged(self._path, self.stage))
        show(f"{self.stage}: started")
        return self

    def close(self) -> None:
        """Standard error is what it was."""
        self._opened.close()

    def end(self, figure: str | None) -> None:
        """Show that the job is done, and its `figure`."""
        about = f" ({figure})" if figure else ""
        show(f"{self.stage}: done in {in_exact_time(time.monotonic() - self._begun)}{about}")


class _Log:
    """A job's log; once it cannot be written to, on a full disk for instance, it is given up."""

    def __init__(self, path: str):
        self._path, self._file = path, None
        with self._given_up(sys.stderr):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = open(path, "wb", buffering=0)

    @property
    def descriptor(self) -> int | None:
        """That of the open file."""
        return None if self._file is None else self._file.fileno()

    def write(self, text: str, terminal: TextIO) -> None:
        data = text.encode("utf-8", "backslashreplace")
        with self._given_up(terminal):
            while data and self._file:
                data = data[self._file.write(data) :]

    @contextmanager
    def _given_up(self, terminal: TextIO) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._file = None
            with contextlib.suppress(OSError):
                terminal.write(f"\nWarning: no log is written to {self._path}: {error.strerror}\n")


class _Tee:
    """Writes to the log, and to the terminal if there is one, with hidden characters as escapes,
    except carriage returns, with which libraries draw their progress."""

    def __init__(self, terminal: TextIO | None, log: _Log):
        self._terminal, self._log = terminal, log

    def write(self, text: str) -> int:
        shown = "\r".join(map(printable, text.split("\r")))
        self._log.write(shown, self._terminal or sys.__stderr__)
        if self._terminal is not None:
            self._terminal.write(shown)
        return len(text)

    def close(self) -> None:
        """Nothing: both belong to others. Libraries close stderr when they end."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal or sys.__stderr__, name)


@contextmanager
def _logged(path: str, stage: str) -> Iterator[None]:
    log, stdout, stderr, hook = _Log(path), sys.stdout, sys.stderr, sys.excepthook
    with ExitStack() as restored:
        terminal = restored.enter_context(_descriptor_to(log, stderr))
        sys.stdout, sys.stderr = _Tee(stdout, log), _Tee(None, log)
        restored.enter_context(job_terminal(terminal, stage))
        sys.excepthook = lambda *error: show("".join(traceback.format_exception(*error)))
        try:
            yield
        finally:
            sys.stdout, sys.stderr, sys.excepthook = stdout, stderr, hook


@contextmanager
def _descriptor_to(log: _Log, stderr: TextIO) -> Iterator[TextIO]:
    """Inside, what is written to descriptor 2 is in the log; gives the terminal that it was."""
    try:
        is_descriptor = stderr.fileno() == 2
    except (OSError, ValueError):
        is_descriptor = False
    if log.descriptor is None or not is_descriptor:
        yield stderr
        return
    stderr.flush()
    kept = os.dup(2)
    os.dup2(log.descriptor, 2)
    try:
        with open(os.dup(kept), "w", encoding="utf-8", errors="backslashreplace") as terminal:
            yield terminal
    finally:
        os.dup2(kept, 2)
        os.close(kept)

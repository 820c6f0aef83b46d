"""The log of a job: all that it prints on standard error, as does what it calls."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, TextIO

from mlm.foundations.phrasing import in_exact_time
from mlm.foundations.terminal import set_job, show


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
        set_job(self._redirect(), self.stage)
        self._opened.callback(set_job, None, "")
        self._opened.callback(setattr, sys, "excepthook", sys.excepthook)
        sys.excepthook = lambda *error: show("".join(traceback.format_exception(*error)))
        show(f"{self.stage}: started")
        return self

    def _redirect(self) -> TextIO:
        """Make the log standard error, also of what writes to descriptor 2; the terminal. A job
        whose log alone cannot be written goes on."""
        terminal, text = sys.stderr, {"encoding": "utf-8", "errors": "backslashreplace"}
        try:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            log = open(self._path, "w", buffering=1, **text)
        except OSError as error:
            terminal.write(f"\nWarning: no log is written to {self._path}: {error.strerror}\n")
            return terminal
        self._opened.callback(_close, log)
        if _is_descriptor_2(terminal):
            terminal.flush()
            terminal = self._opened.enter_context(open(os.dup(2), "w", **text))
            self._opened.callback(os.dup2, terminal.fileno(), 2)
            os.dup2(log.fileno(), 2)
        self._opened.callback(setattr, sys, "stderr", sys.stderr)
        sys.stderr = log
        return terminal

    def close(self) -> None:
        """Standard error is what it was."""
        self._opened.close()

    def end(self, figure: str | None) -> None:
        """Show that the job is done, and its `figure`."""
        about = f" ({figure})" if figure else ""
        show(f"{self.stage}: done in {in_exact_time(time.monotonic() - self._begun)}{about}")


def _is_descriptor_2(stream: TextIO) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return stream.fileno() == 2
    return False


def _close(log: TextIO) -> None:
    with contextlib.suppress(OSError):  # a full disk
        log.close()

"""What every rule's script does around its work: check the inputs, log, report errors in words, and
record in the outputs what they were made from."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TextIO

from mlm.foundations.abandoned_locks import alone
from mlm.foundations.artefacts import check_inputs, record_job
from mlm.foundations.errors import error_in_words
from mlm.foundations.terminal import end_by_signals, in_exact_time, set_job, show


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


@dataclass(frozen=True)
class Done:
    """What a job came to: the `figure` that its last line shows, and the sha256 of outputs that are
    known, by path."""

    figure: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


def begin(job: Any) -> None:
    """Show that the job begins; from now on, what it prints on standard error is in its log."""
    # Errors of TensorFlow belong into the log.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    JobLog(job).open()


def run(main: Callable[[Any], Done | None], job: Any, unread: tuple[str, ...] = ()) -> None:
    """Call `main(job)`, `job` being the object `snakemake` of a script, with its standard error in
    the rule's log and its standard output there and at the terminal.

    Before it, the inputs are checked against the records of their makers; those with a name in
    `unread` are checked by the job's own code. After it, what the job was made from is added to its
    artefacts. Outputs of which `main` gives the sha256 are not read again.

    An error that the user can mend is printed in words and ends the process with status 1; any
    other is a bug and keeps its traceback.
    """
    end_by_signals()
    opened = JobLog.current or JobLog(job).open()
    try:
        with alone(job.log[0]):
            _run(main, job, unread, opened)
    finally:
        opened.close()


def _run(main: Callable, job: Any, unread: tuple[str, ...], opened: JobLog) -> None:
    try:
        # Fetched from a bucket, to be on this disk; or waited for alone; or steps on the way to the
        # same bytes, of any number; or of other directories.
        passed_over = _named(job.input, ("staged", "continued", "parts", "also"))
        paths = [path for path in map(str, job.input) if path not in passed_over]
        inputs = check_inputs(paths, _named(job.input, unread))
        done = main(job) or Done()
        params = dict(job.params.items())
        record_job(job.rule, inputs, params, map(str, job.output), done.sha256)
        opened.end(done.figure)
    except Exception as error:
        words = error_in_words(error)
        if words is None:
            show(traceback.format_exc())
        else:
            values = [value for _, value in job.wildcards.items()]
            of = f" ({', '.join(values)})" if values else ""
            show(f"\nError in rule {job.rule}{of}: {words}\n")
        sys.exit(1)


def _named(inputs: Any, names: tuple[str, ...]) -> list[str]:
    found = [inputs.get(name, []) for name in names]
    return [str(path) for v in found for path in ([v] if isinstance(v, str) else v)]

"""What every rule's script does around its work: check the inputs, log, report errors in words, and
record in the outputs what they were made from."""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from mlm.foundations.abandoned_locks import alone
from mlm.foundations.artefacts import check_inputs, record_job
from mlm.foundations.errors import error_in_words, printable

#: Time that a job has to clean up after SIGTERM.
_CLEAN_UP_SECONDS = 15.0


def end_by_signals() -> None:
    """SIGTERM and SIGINT end the process as an error does, so that temporary files are removed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def _end(number: int, _frame) -> None:
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    with contextlib.suppress(OSError, RuntimeError):  # a full disk; in the middle of a line
        name = signal.Signals(number).name
        print(f"\nStopped by {name}. The same command continues.", file=sys.stderr, flush=True)
    # Python drops an exception that a signal raises inside a garbage collector's callback.
    force = threading.Timer(_CLEAN_UP_SECONDS, os._exit, [128 + number])
    force.daemon = True
    force.start()
    sys.exit(128 + number)


def run(
    main: Callable[[Any], Mapping[str, str] | None], job: Any, unread: tuple[str, ...] = ()
) -> None:
    """Call `main(job)`, `job` being the object `snakemake` of a script, and copy what it prints to
    the rule's log.

    Before it, the inputs are checked against the records of their makers; those with a name in
    `unread` are checked by the job's own code. After it, what the job was made from is added to its
    artefacts. `main` may return the sha256 of outputs by path, which are then not read again.

    An error that the user can mend is printed in words and ends the process with status 1; any
    other is a bug and keeps its traceback.
    """
    end_by_signals()
    with _logged(job.log[0]), alone(job.log[0]):
        try:
            # Fetched from a bucket, to be on this disk; or waited for alone; or steps on the way to
            # the same bytes, of any number.
            passed_over = _named(job.input, ("staged", "continued", "parts"))
            paths = [path for path in map(str, job.input) if path not in passed_over]
            inputs = check_inputs(paths, _named(job.input, unread))
            known = main(job)
            record_job(job.rule, inputs, dict(job.params.items()), map(str, job.output), known)
        except Exception as error:
            words = error_in_words(error)
            # The terminal may be a file on a full disk as well.
            with contextlib.suppress(OSError):
                if words is None:
                    traceback.print_exc()
                else:
                    print(f"\nError in rule {job.rule}: {words}\n", file=sys.stderr)
            sys.exit(1)


def _named(inputs: Any, names: tuple[str, ...]) -> list[str]:
    found = [inputs.get(name, []) for name in names]
    return [str(path) for v in found for path in ([v] if isinstance(v, str) else v)]


class _Log:
    """A job's log; once it cannot be written to, on a full disk for instance, it is given up."""

    def __init__(self, path: str):
        self._path, self._file = path, None
        with self._given_up(sys.stderr):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = open(path, "wb", buffering=0)

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
    """Writes to the terminal and the log, with hidden characters as escapes; but for carriage
    returns, with which libraries draw their progress."""

    def __init__(self, terminal: TextIO, log: _Log):
        self._terminal, self._log = terminal, log

    def write(self, text: str) -> int:
        shown = "\r".join(map(printable, text.split("\r")))
        self._log.write(shown, self._terminal)
        self._terminal.write(shown)
        return len(text)

    def close(self) -> None:
        """Nothing: both belong to others. Libraries close stderr when they end."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


@contextmanager
def _logged(path: str) -> Iterator[None]:
    log, terminals = _Log(path), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (_Tee(terminal, log) for terminal in terminals)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = terminals

"""What every rule's script does around its one call: log, and report errors in words."""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from mlm.foundations.abandoned_locks import alone
from mlm.foundations.artefacts import check_inputs, record_job
from mlm.foundations.errors import error_in_words
from mlm.foundations.job_log import logged

#: Time that a job has to clean up after SIGTERM.
_CLEAN_UP_SECONDS = 15.0


def end_by_signals() -> None:
    """SIGTERM, as a scheduler sends it, and SIGINT end the process as an error does, in one line.

    So that temporary files are removed.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def _end(number: int, _frame) -> None:
    """End the process; by force if that has not helped after a while.

    Python drops an exception that a signal raises inside a garbage collector's callback.
    """
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    with contextlib.suppress(OSError, RuntimeError):  # a full disk; in the middle of a line
        name = signal.Signals(number).name
        print(f"\nStopped by {name}. The same command continues.", file=sys.stderr, flush=True)
    force = threading.Timer(_CLEAN_UP_SECONDS, os._exit, [128 + number])
    force.daemon = True
    force.start()
    sys.exit(128 + number)


def run(
    main: Callable[[Any], Mapping[str, str] | None],
    snakemake: Any,
    unread: tuple[str, ...] = (),
) -> None:
    """Call `main(snakemake)` with its output copied to the rule's log.

    Before it, the inputs are checked against the records of their makers; after it, what the
    job was made from is added to the artefacts that it wrote. `main` may return the sha256 of
    outputs by path, which are then not read again. Inputs with a name in `unread` are checked by
    the job's own code, where it reads them.

    An MlmError is printed without a traceback and ends the process with status 1; so do a
    full disk and a refused write. Any other exception is a bug and keeps its traceback.
    """
    end_by_signals()
    with logged(snakemake.log[0]), alone(snakemake.log[0]):
        try:
            _recorded(main, snakemake, unread)
        except Exception as error:
            words = error_in_words(error)
            # The terminal may be a file on a full disk as well.
            with contextlib.suppress(OSError):
                if words is None:
                    traceback.print_exc()
                else:
                    print(f"\nError in rule {snakemake.rule}: {words}\n", file=sys.stderr)
            sys.exit(1)


def _recorded(main: Callable, job: Any, unread: tuple[str, ...]) -> None:
    # Fetched from a bucket, to be on this disk, which the job finds through its other inputs; or
    # waited for alone; or steps on the way to the same bytes, of any number.
    passed_over = _named(job.input, ("staged", "continued", "parts"))
    paths = [path for path in map(str, job.input) if path not in passed_over]
    inputs = check_inputs(paths, _named(job.input, unread))
    known = main(job)
    record_job(job.rule, inputs, dict(job.params.items()), map(str, job.output), known)


def _named(inputs: Any, names: tuple[str, ...]) -> list[str]:
    found = [inputs.get(name, []) for name in names]
    return [str(path) for v in found for path in ([v] if isinstance(v, str) else v)]

"""What every rule's script does around its work: check the inputs, log, report errors in words, and
record in the outputs what they were made from."""

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlm.foundations.abandoned_locks import alone
from mlm.foundations.artefacts import check_inputs, record_job
from mlm.foundations.errors import error_in_words
from mlm.foundations.interrupts import end_by_signals
from mlm.foundations.job_log import JobLog
from mlm.foundations.terminal import show


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

"""A process of Snakemake: what it checks first, how it ends, and what it shows at the terminal.

Jobs on this machine show their own lines and errors; `.snakemake/log/` keeps what Snakemake says.
A logger plugin would have to be installed as a package before Snakemake starts; a filter of
Python's `logging` needs nothing.
"""

import contextlib
import logging
import re
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlm.foundations.abandoned_locks import hold_directory
from mlm.foundations.environment import check_encoding
from mlm.foundations.working_directory import check_place

#: Beginnings of lines that say nothing of this run.
_LINES = (
    *("Building DAG", "Using shell", "Conda environments: ignored", "Select jobs", "Processed "),
    *("Group jobs: inactive", "Singularity containers: ignored", "Removing temporary output"),
    *("Shutting down, this might take some time", "Exiting because a job execution failed"),
)
#: The command of a job that showed its error or by which signal it was stopped; and of the whole.
_SHOWN_BY_JOB = re.compile(
    r"RuleException:\nCalledProcessError.* returned non-zero exit status (1|130|143)\.|"
    r"WorkflowError:\nAt least one job did not complete successfully\.",
    re.DOTALL,
)


def begin(workflow: Any, logger: logging.Logger) -> None:
    """Prepare this process of Snakemake for `workflow`; MlmError unless results can be written to
    the working directory."""
    check_encoding()
    check_place(Path.cwd())
    if workflow.is_main_process and not workflow.output_settings.dryrun:
        shorten(logger, workflow)
        hold_directory(Path.cwd(), logger.info)
    end_jobs_on_interrupt()


def end_jobs_on_interrupt() -> None:
    """From now on, SIGINT of this Snakemake, which would wait for its jobs, ends each by a SIGTERM.

    From a terminal, Ctrl-C reaches the jobs as well: they are to be started with SIGINT ignored.
    """

    def interrupted(number, frame):
        import psutil

        with contextlib.suppress(psutil.Error):
            for child in psutil.Process().children():
                with contextlib.suppress(psutil.Error):
                    # A shell would not pass it on.
                    shell = child.name() in ("bash", "sh")
                    for process in (shell and child.children()) or [child]:
                        process.terminate()
        signal.default_int_handler(number, frame)

    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, interrupted)


def shorten(logger: logging.Logger, workflow: Any) -> None:
    """If jobs run here, show only errors, warnings and the end of a run at the terminal, unless
    --quiet, --verbose, --debug-dag or --show-failed-logs says what to show."""
    output = workflow.output_settings
    if output.quiet or output.verbose or output.debug_dag or output.show_failed_logs:
        return
    for handler in logger.handlers:
        is_file = isinstance(handler, logging.FileHandler)
        if isinstance(handler, logging.StreamHandler) and not is_file:
            shortened = _Shortened(handler.formatter, workflow)
            handler.addFilter(shortened)
            handler.setFormatter(shortened)


class _Shortened(logging.Formatter):
    """Filter and format of Snakemake's records: what no job says, and one line for a failed job.
    All if jobs run elsewhere, which the `workflow` knows once it has read its rules."""

    def __init__(self, formatter: logging.Formatter, workflow: Any):
        super().__init__()
        self._formatter, self._workflow = formatter, workflow

    def filter(self, record: logging.LogRecord) -> bool:
        text, event = str(record.msg), getattr(record, "event", None)
        if not self._workflow.local_exec or event == "job_error":
            return True
        if record.levelno >= logging.WARNING:
            return not (_SHOWN_BY_JOB.match(text) or text.startswith(_LINES))
        return event is None and not text.startswith(_LINES)

    def format(self, record: logging.LogRecord) -> str:
        if getattr(record, "event", None) == "job_error" and self._workflow.local_exec:
            return f"Failed: {record.rule_name}, log: {', '.join(record.log)}"
        return self._formatter.format(record)


def plan(jobs: Iterable[Any], rules: Iterable[Any]) -> str:
    """The `jobs` to run on one line, in the order of the `rules`: `3 jobs: corpus, 2 × shard`."""
    counts = Counter(job.rule.name for job in jobs if not job.rule.norun)
    names = [rule.name for rule in rules if counts[rule.name]]
    words = (f"{counts[name]} × {name}" if counts[name] > 1 else name for name in names)
    return f"{counts.total()} job{'s' * (counts.total() != 1)}: {', '.join(words)}"

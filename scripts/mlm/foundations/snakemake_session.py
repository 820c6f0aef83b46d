"""A process of Snakemake: the checks of its working directory, its lock, its lines at the terminal.

Jobs on this machine show their own lines and errors; `.snakemake/log/` keeps what Snakemake says.
A logger plugin would have to be installed as a package before Snakemake starts; a filter of
Python's `logging` needs nothing.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlm.foundations.errors import MlmError
from mlm.foundations.job import hold

#: Beginnings of lines that say nothing of this run.
_LINES = (
    *("Building DAG", "Using shell", "Conda environments: ignored", "Select jobs", "Processed "),
    *("Group jobs: inactive", "Singularity containers: ignored", "Removing temporary output"),
    *("Shutting down, this might take some time", "Exiting because a job execution failed"),
    "Terminating processes on user request",
)
#: The command of a job that showed its error or by which signal it was stopped; and of the whole.
_SHOWN_BY_JOB = re.compile(
    r"RuleException:\nCalledProcessError.* returned non-zero exit status (1|130|143)\.|"
    r"WorkflowError:\nAt least one job did not complete successfully\.",
    re.DOTALL,
)


def begin(workflow: Any, logger: logging.Logger) -> None:
    """Prepare this process of Snakemake for `workflow`; MlmError unless results can be written to
    the working directory.

    If jobs run here, only errors, warnings and the end of a run are shown at the terminal, unless
    --quiet, --verbose, --debug-dag or --show-failed-logs says what to show.
    """
    check_place(Path.cwd())
    output = workflow.output_settings
    as_is = output.dryrun, output.quiet, output.verbose, output.debug_dag, output.show_failed_logs
    for handler in logger.handlers if workflow.is_main_process and not any(as_is) else ():
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            # Where jobs run is known once the rules have been read.
            handler.addFilter(lambda record: not workflow.local_exec or _is_news(record))


def _is_news(record: logging.LogRecord) -> bool:
    """Whether no job has shown the same, and it says something of this run."""
    text, event = str(record.msg), getattr(record, "event", None)
    if text.startswith(_LINES) or event == "job_error":
        return False
    return not _SHOWN_BY_JOB.match(text) if record.levelno >= logging.WARNING else event is None


def hold_directory() -> None:
    """Keep other runs out of the working directory until this process ends, however it ends.

    Raises MlmError if one is at work there. The profiles switch Snakemake's own lock off, which a
    kill leaves behind.
    """

    def refuse(process: str) -> None:
        raise MlmError(
            f"Another run is at work in {Path.cwd()}: process {process}. Wait for its end, or run "
            "in another directory (snakemake --directory)"
        )

    hold(Path(".snakemake/running"), refuse)


def check_place(directory: Path) -> None:
    """Raise MlmError if results cannot be written below `directory`."""
    for place in (directory / "results", directory / "logs", directory / ".snakemake"):
        # A link to nothing is no directory either.
        there = place if os.path.lexists(place) else directory
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise MlmError(
                f"{there} is no directory that this user can write to. Make it one (mkdir -p "
                f"{there.resolve()}; chmod u+rwX), or run in another directory (snakemake "
                "--directory)"
            )


def plan(jobs: Iterable[Any], rules: Iterable[Any]) -> str:
    """Return the `jobs` on one line, in the order of `rules`: `3 jobs: corpus, 2 × shard`."""
    counts = Counter(job.rule.name for job in jobs if not job.rule.norun)
    names = [rule.name for rule in rules if counts[rule.name]]
    words = (f"{counts[name]} × {name}" if counts[name] > 1 else name for name in names)
    return f"{counts.total()} job{'s' * (counts.total() != 1)}: {', '.join(words)}"

"""What Snakemake itself shows at the terminal while its jobs run on this machine and show their own
lines and errors. `.snakemake/log/` keeps all of it."""

import logging
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

#: Kinds of records that jobs of this workflow show themselves, or that say nothing of this run.
_EVENTS = (
    *("job_info", "job_started", "job_finished", "progress", "run_info", "resources_info"),
    *("shellcmd", "workflow_started", "group_info"),
)
#: Beginnings of lines of no kind.
_LINES = (
    *("Building DAG", "Using shell", "Conda environments: ignored", "Select jobs", "Processed "),
    *("Group jobs: inactive", "Singularity containers: ignored", "Removing temporary output"),
    "Shutting down, this might take some time",
)
#: The command of a job that showed its error or by which signal it was stopped; and of the whole.
_TOLD = re.compile(
    r"RuleException:\nCalledProcessError.* returned non-zero exit status (1|130|143)\.|"
    r"WorkflowError:\nAt least one job did not complete successfully\.",
    re.DOTALL,
)
#: The end of a run with failed jobs.
_FAILED = "Exiting because a job execution failed"


def shorten(logger: logging.Logger, workflow: Any) -> None:
    """If jobs run here, show only errors, warnings and the end of a run at the terminal, unless
    --quiet, --verbose or --show-failed-logs says what to show."""
    said = workflow.output_settings
    if said.quiet or said.verbose or said.show_failed_logs:
        return
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            shown = _Shortened(handler.formatter, workflow)
            handler.addFilter(shown)
            handler.setFormatter(shown)


class _Shortened(logging.Formatter):
    """Of Snakemake's records, those that say what no job says; all if jobs run elsewhere, which
    the `workflow` knows once it has read its rules. Failed jobs are named at the end, with their
    logs."""

    def __init__(self, formatter: logging.Formatter, workflow: Any):
        super().__init__()
        self._formatter, self._workflow, self._failed = formatter, workflow, []

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._workflow.local_exec:
            return True
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_error":
            self._failed.append((record.rule_name, record.log))
            return False
        if record.levelno >= logging.WARNING:
            return not _TOLD.match(str(record.msg))
        return event not in _EVENTS and not str(record.msg).startswith(_LINES)

    def format(self, record: logging.LogRecord) -> str:
        if not str(record.msg).startswith(_FAILED) or not self._failed:
            return self._formatter.format(record)
        return "\n".join(f"Failed: {rule}, log: {', '.join(log)}" for rule, log in self._failed)


def plan(jobs: Iterable[Any], rules: Iterable[Any]) -> str:
    """The `jobs` to run on one line, in the order of the `rules`: `3 jobs: corpus, 2 × shard`."""
    counts = Counter(job.rule.name for job in jobs if not job.rule.norun)
    found = [(rule.name, counts[rule.name]) for rule in rules if counts[rule.name]]
    words = (f"{count} × {name}" if count > 1 else name for name, count in found)
    return f"{counts.total()} job{'s' * (counts.total() != 1)}: {', '.join(words)}"

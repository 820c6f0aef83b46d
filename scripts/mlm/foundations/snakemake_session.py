"""A process of Snakemake: the checks of its working directory, its lock, its lines at the terminal.

Jobs on this machine show their own lines and errors; `.snakemake/log/` keeps what Snakemake says.
A logger plugin would have to be installed as a package before Snakemake starts; a filter of
Python's `logging` needs nothing.
"""

import logging
import os
import re
import shlex
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any, TextIO

from mlm.foundations.environment import check_encoding
from mlm.foundations.errors import MlmError

#: Below this nothing is begun. The embedded corpus alone comes to about 50 MB of results.
LEAST_FREE_BYTES = 100_000_000
#: Open as long as this process lives, which keeps the kernel's lock.
_HELD: list[TextIO] = []

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
    check_encoding()
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


def hold_directory(say: Callable[[str], None]) -> None:
    """Keep other runs out of the working directory until this process ends, however it ends.

    Raises MlmError if one is at work there. The profiles switch Snakemake's own lock off, which a
    kill leaves behind. `say` is called with a line if the file system cannot lock.
    """
    holder = open(".snakemake/running", "a+", encoding="utf-8")
    _HELD.append(holder)
    holder.seek(0)
    try:
        flock(holder, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise MlmError(
            f"Another run is at work in {Path.cwd()}: {holder.read().strip()}. Wait for its end, "
            "or run in another directory (snakemake --directory)"
        ) from None
    except OSError as error:
        say(f"This directory cannot be locked ({error}): run one snakemake at a time in it.")
    with suppress(OSError):  # a full disk
        os.truncate(holder.fileno(), 0)
        os.write(holder.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())


def check_place(directory: Path) -> None:
    """Raise MlmError if results cannot be written below `directory`, or hardly fit."""
    elsewhere = "or run in another directory (snakemake --directory)"
    for name in ("results", "logs", ".snakemake"):
        place = directory / name
        if os.path.lexists(place) and not place.is_dir():
            raise MlmError(
                f"{place} is a file, or a link to nothing; a directory is expected there. Move it "
                f"away, or make the directory: mkdir -p {place.resolve()}"
            )
        if not os.access(place if place.exists() else directory, os.W_OK | os.X_OK):
            raise MlmError(
                f"{directory} cannot be written to, so {name}/ cannot be filled. Give this user "
                f"the right to write there, {elsewhere}"
            )
    if (free := shutil.disk_usage(directory).free) < LEAST_FREE_BYTES:
        raise MlmError(
            f"{directory} has only {free / 1e6:.0f} MB of free disk space; at least "
            f"{LEAST_FREE_BYTES / 1e6:.0f} MB are needed to start. Free some space, {elsewhere}"
        )


def check_dates(paths: Iterable[str]) -> None:
    """Raise MlmError if some of the files `paths`, or links to them, are dated in the future: what
    a job makes from them is older, which Snakemake takes for an error after the work."""
    latest = time.time() + 1
    ahead = [
        # Absolute: Snakemake may work in another directory than the user.
        os.path.abspath(path)
        for path in sorted(filter(os.path.exists, set(paths)))
        if max(os.stat(path).st_mtime, os.lstat(path).st_mtime) > latest
    ]
    if ahead:
        files = shlex.join(ahead)
        raise MlmError(
            f"{ahead[0]} is dated in the future, and Snakemake would delete what is made from it. "
            f"Give it the date of today: touch {files} && touch -h {files}"
        )


def plan(jobs: Iterable[Any], rules: Iterable[Any]) -> str:
    """Return the `jobs` on one line, in the order of `rules`: `3 jobs: corpus, 2 × shard`."""
    counts = Counter(job.rule.name for job in jobs if not job.rule.norun)
    names = [rule.name for rule in rules if counts[rule.name]]
    words = (f"{counts[name]} × {name}" if counts[name] > 1 else name for name in names)
    return f"{counts.total()} job{'s' * (counts.total() != 1)}: {', '.join(words)}"

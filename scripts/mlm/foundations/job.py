"""The frame around each job: its log, errors, and its record."""

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any, NoReturn, TextIO

from mlm.foundations.artefacts import (
    MadeFrom,
    as_json,
    is_artefact,
    portable,
    read_artefact,
    settings_digests,
    write_artefact,
)
from mlm.foundations.digests import result_sha256, value_sha256
from mlm.foundations.environment import check_environment
from mlm.foundations.errors import MlmError, error_in_words
from mlm.foundations.input_checks import check_inputs
from mlm.foundations.signals import end_by_signals
from mlm.foundations.terminal import in_time, set_job, show

#: Inputs that are not checked: fetched from a bucket to be on this disk, waited for alone, steps on
#: the way to the same bytes, of other directories.
_UNCHECKED = ("staged", "continued", "parts", "also")
#: Open as long as this process lives, which keeps the kernel's locks.
_HELD: list[TextIO] = []


@dataclass(frozen=True)
class Done:
    """The `figure` of a job for its last line, and the sha256 of outputs that it knows, by path."""

    figure: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


class Job:
    """The job of this process; `snakemake` is the object that Snakemake gives to a script."""

    def __init__(self, snakemake: Any):
        self._job, self._begun = snakemake, time.monotonic()
        self.rule: str = snakemake.rule
        self._wildcards = dict(snakemake.wildcards.items())
        self._stage = stage_name(self.rule, self._wildcards)

    def begin(self) -> None:
        """Open the log, which is standard error from now on, and check the packages of the job."""
        # Errors of TensorFlow belong into the log.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        end_by_signals()
        log = Path(self._job.log[0])
        log.parent.mkdir(parents=True, exist_ok=True)
        terminal = open(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
        sys.stderr = open(log, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        # Also of what libraries in C write.
        os.dup2(sys.stderr.fileno(), 2)
        set_job(terminal, self._stage)
        sys.excepthook = lambda *error: show("".join(traceback.format_exception(*error)))
        show(f"{self._stage}: started")
        try:
            check_environment()
        except MlmError as error:
            self._fail(error)

    def run(self, main: Callable[[Any], Done | None], unread: tuple[str, ...] = ()) -> None:
        """Call `main` with the object of Snakemake, and end the process after an error.

        Before it, the inputs are checked against the records of their makers; those with a name in
        `unread` are checked by the job itself. After it, what the job was made from is added to its
        artefacts. An error that the user can mend is shown in words; any other is a bug and keeps
        its traceback.
        """
        job = self._job
        try:
            # A job may outlive its Snakemake, if that is killed.
            if (place := Path(".snakemake")).is_dir():
                (place / "jobs").mkdir(exist_ok=True)
                hold(place / "jobs" / job.log[0].replace("/", ","), self._wait_for)
            unchecked = _named(job.input, _UNCHECKED)
            paths = [path for path in map(str, job.input) if path not in unchecked]
            inputs = check_inputs(paths, _named(job.input, unread))
            done = main(job) or Done()
            params, outputs = dict(job.params.items()), map(str, job.output)
            record_job(self.rule, inputs, params, outputs, done.sha256)
        except Exception as error:
            self._fail(error)
        else:
            about = f" ({done.figure})" if done.figure else ""
            show(f"{self._stage}: done in {in_time(time.monotonic() - self._begun)}{about}")
        finally:
            # A log on a full disk fails once more when Python closes it, which is no failure.
            sys.stderr = sys.__stderr__

    def _wait_for(self, process: str) -> None:
        show(
            "A job of a run that was killed is still at work on the same results; waiting for it "
            f"to end. To end it now, kill process {process}"
        )

    def _fail(self, error: Exception) -> NoReturn:
        if words := error_in_words(error):
            of = f" ({', '.join(self._wildcards.values())})" if self._wildcards else ""
            words = f"\nError in rule {self.rule}{of}: {words}\nIts log: {self._job.log[0]}\n"
        show(words or traceback.format_exc())
        sys.exit(1)


def record_job(
    rule: str,
    inputs: Mapping[str, str],
    params: Mapping[str, Any],
    outputs: Iterable[str],
    known: Mapping[str, str] = {},
) -> None:
    """Add what they were made from to the artefacts among a job's `outputs`.

    `inputs` comes from `check_inputs`; `params` are the job's, with its code digests as `code`.
    `known` has the sha256 of outputs that the job itself has computed.
    """
    outputs = list(outputs)
    artefacts = [path for path in outputs if is_artefact(path)]
    others = [path for path in outputs if path not in artefacts] if artefacts else []
    digests = {portable(path): known.get(path) or result_sha256(path) for path in others}
    code, settings = value_sha256(params.get("code", {})), settings_digests(params)
    record = MadeFrom(rule, code, settings, dict(inputs), digests)
    for path in artefacts:
        write_artefact(path, read_artefact(path) | {"made_from": as_json(record)})


def stage_name(rule: str, wildcards: Mapping[str, str]) -> str:
    """Return the stage of a job in words: `shard train 1 of 6`."""
    words = [rule.replace("_", " ")]
    for name, value in wildcards.items():
        if total := wildcards.get(f"{name}s"):
            words.append(f"{int(value) + 1} of {int(total)}")
        elif name[:-1] not in wildcards:
            words.append(value)
    return " ".join(words)


def _named(inputs: Any, names: tuple[str, ...]) -> list[str]:
    values = [inputs.get(name, []) for name in names]
    return [str(path) for v in values for path in ([v] if isinstance(v, str) else v)]


def hold(path: Path, busy: Callable[[str], None]) -> None:
    """Lock the file `path` until this process ends, however it ends. If another process has it,
    call `busy` with its id and host, and wait for its end."""
    holder = open(path, "a+", encoding="utf-8")
    _HELD.append(holder)
    try:
        flock(holder, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        holder.seek(0)
        busy(holder.read().strip())
        flock(holder, LOCK_EX)
    except OSError:  # a file system without such locks
        pass
    with suppress(OSError):  # a full disk
        os.truncate(holder.fileno(), 0)
        os.write(holder.fileno(), f"{os.getpid()} on {socket.gethostname()}\n".encode())

"""Several processes that train one run together: how they are started, and what each knows of it.

One of them leads: it alone holds the states' lock, logs, saves, exports and pushes. The others
compute their part of each step. A process finds the others through three variables of its
environment, which whoever starts it sets, or as JAX finds them (`mlm.pretraining.in_jax.together`).
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from mlm.foundations.errors import MlmError, refusal_in_words

#: Where the processes meet, how many there are, and which one this is.
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
_OF_SLURM = "SLURM_PROCID"
#: Set for a process that `run_together` has started.
_STARTED = "MLM_STARTED_TOGETHER"

#: What the error of a process begins with that misses another.
LOST = "A process of this training was lost"

#: Begins the line in which a process says why it ended.
_PROBLEM = "\x1d"
#: How lines begin in which a library says that all is well.
_NOISE = "[Gloo] Rank"
#: Lines of a process that are kept in case it fails.
_KEPT_LINES = 30
#: Seconds in which the others may say that one was lost, before they are ended.
_LAST_WORDS = 15.0


class Group(Protocol):
    """The processes of a training, as one of them sees them."""

    #: How many there are, which one this is, and whether it leads.
    count: int
    index: int
    leads: bool

    def as_one(self) -> AbstractContextManager[None]:
        """What is done inside, all have done at the end; an MlmError of one is that of all."""

    def told(self, value: Any) -> Any:
        """What the process that leads gave, JSON-like."""

    def check_alike(self, what: dict) -> None:
        """Raise MlmError, naming the difference, where not all gave the same."""

    def agreed(self, step: int, stopped_by: str | None) -> str | None:
        """The signal by which all stop now, after `step`; `stopped_by` is this process's own."""

    def watched(self) -> AbstractContextManager[None]:
        """Raises MlmError where another process is lost meanwhile."""

    def leave(self) -> None:
        """Part from the others, when all have done their part of the training."""


class Alone:
    """The one process of a training."""

    count, index, leads = 1, 0, True

    def as_one(self) -> AbstractContextManager[None]:
        return nullcontext()

    def told(self, value: Any) -> Any:
        return value

    def check_alike(self, what: dict) -> None:
        pass

    def agreed(self, step: int, stopped_by: str | None) -> str | None:
        return stopped_by

    def watched(self) -> AbstractContextManager[None]:
        return nullcontext()

    def leave(self) -> None:
        pass


@dataclass(frozen=True)
class Member:
    """A process of several: number `index` of `count`, which meet at `coordinator`; all None where
    JAX is to find that out."""

    coordinator: str | None = None
    count: int | None = None
    index: int | None = None


def as_member(start: str, processes: int | None, environment: Mapping = os.environ) -> Member:
    """This process as one of several.

    Raises MlmError where the environment does not say which one it is.
    """
    given = {name: environment.get(name) for name in (COORDINATOR, COUNT, INDEX)}
    if start == "srun" and given[INDEX] is None:
        given[INDEX] = environment.get(_OF_SLURM)
    missing = [name for name, value in given.items() if not value]
    if start == "hosts" and len(missing) == len(given):
        return Member()
    if missing:
        raise MlmError(
            f"accelerator.processes: this command is one process, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set to say which of several it is. "
            + (
                "Set all three on every host, or none where JAX finds the others itself"
                if start == "hosts"
                else "Only a training starts the others: set accelerator.processes to null here"
            )
        )
    try:
        count, index = int(given[COUNT]), int(given[INDEX])
    except ValueError:
        count, index = 0, 0
    if not 0 <= index < count:
        raise MlmError(
            f"{COUNT}={given[COUNT]} and {INDEX}={given[INDEX]}: the second has to be a number "
            "from 0 to below the first"
        )
    if processes not in (None, count):
        raise MlmError(
            f"accelerator.processes: {processes}, but {COUNT} is {count}. Set processes to null, "
            f"or start {processes}"
        )
    return Member(given[COORDINATOR], count, index)


@contextmanager
def ended_at_once() -> Iterator[None]:
    """In one of several processes: what ends it is told to its parent, or printed, and ends it now.

    The others may be gone or wait for this one, and what waits for them at the usual end of a
    process waits for ever.
    """
    try:
        yield
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else 1)
    except KeyboardInterrupt:
        _end(128 + signal.SIGINT)
    except Exception as error:
        words = str(error) if isinstance(error, MlmError) else refusal_in_words(error)
        # The output may be a file on a full disk as well.
        with suppress(OSError):
            if words is None:
                traceback.print_exc()
            else:
                print(problem_line(words), file=sys.stderr)
        _end(1)


def _end(status: int) -> NoReturn:
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def problem_line(words: str) -> str:
    """The line by which a process tells its parent why it ends; as it is where there is none."""
    return f"{_PROBLEM}{json.dumps(words)}" if _STARTED in os.environ else f"\nError: {words}\n"


def request_of_parent() -> dict:
    """What the parent asks for, once: one line, behind which it leaves the stream open. Its end is
    that of the parent, and from then on as SIGTERM to this process."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return request


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class _Told:
    """What processes have said: of each, the last lines, and why it ended."""

    lines: dict[int, list[str]] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)

    def take(self, index: int, line: str) -> None:
        """A line of process `index`; the first one's are shown."""
        before, found, problem = line.partition(_PROBLEM)
        if found:
            # One that another's output has torn apart is a line like others.
            with suppress(ValueError):
                self.problems[index] = json.loads(problem)
                line = before
        if not line or line.startswith(_NOISE):
            return
        kept = self.lines.setdefault(index, [])
        kept.append(line)
        del kept[:-_KEPT_LINES]
        if index == 0:
            sys.stderr.write(line)


def run_together(script: str, request: dict, processes: int, start: str) -> None:
    """Run `script` in so many processes, each of which reads `request`; return when all have ended.

    SIGTERM and SIGINT are passed on to them. Raises MlmError with what the first of them raised
    that failed, or where one was lost; the others are ended then.
    """
    command = [sys.executable, script]
    environment = os.environ | {COUNT: str(processes), _STARTED: "1"}
    if start == "srun":
        command = [*_srun(), f"--ntasks={processes}", "--label", "--kill-on-bad-exit=1", *command]
        environment[COORDINATOR] = f"{socket.gethostname()}:{_free_port()}"
        environments = [environment]
    else:
        environment[COORDINATOR] = f"127.0.0.1:{_free_port()}"
        environments = [environment | {INDEX: str(index)} for index in range(processes)]
    started = [
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for environment in environments
    ]
    told = _Told()
    labelled = start == "srun"
    readers = [
        threading.Thread(target=_read, args=(told, process.stdout, None if labelled else index))
        for index, process in enumerate(started)
    ]
    for reader in readers:
        reader.start()
    with _passing_on(started):
        for process in started:
            # One that has ended by now says why itself.
            with suppress(OSError):
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
        _wait(started)
    for reader in readers:
        reader.join()
    for process in started:
        with suppress(OSError):
            process.stdin.close()
    if any(process.returncode for process in started):
        raise _failure(told, started, labelled)


def _srun() -> list[str]:
    if not os.environ.get("SLURM_JOB_ID"):
        raise MlmError(
            "accelerator.start: srun, but this is no job of Slurm (SLURM_JOB_ID is not set). Run "
            "with --profile profiles/slurm and mpi: srun below pretrain, or set start: here"
        )
    program = shutil.which("srun")
    if program is None:
        raise MlmError("accelerator.start: srun, but there is no srun on the PATH of the job")
    return [program]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


def _read(told: _Told, stream, index: int | None) -> None:
    for line in stream:
        number, text = index, line
        if index is None:
            # As srun labels it; what it says itself has no label.
            label, found, text = line.partition(": ")
            if not (found and label.strip().isdigit()):
                label, text = "0", line
            number = int(label)
        told.take(number, text)


@contextmanager
def _passing_on(started: Sequence[subprocess.Popen]) -> Iterator[None]:
    """Signals that stop a training go to its processes, which agree on a step to stop at."""

    def pass_on(_number, _frame):
        for process in started:
            process.terminate()

    previous = {s: signal.signal(s, pass_on) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _wait(started: Sequence[subprocess.Popen]) -> None:
    """Until all have ended; after one has failed, the others have a moment to say something."""
    end: float | None = None
    while any(process.poll() is None for process in started):
        if end is None and any(process.returncode for process in started):
            end = time.monotonic() + _LAST_WORDS
        if end is not None and time.monotonic() > end:
            for process in started:
                process.kill()
        time.sleep(0.05)


def _failure(told: _Told, started: Sequence[subprocess.Popen], labelled: bool) -> MlmError:
    """Why the processes have ended, as the first of them says that knows."""
    known = [told.problems[i] for i in sorted(told.problems) if LOST not in told.problems[i]]
    if known:
        return MlmError(known[0])
    statuses = [(i, p.returncode) for i, p in enumerate(started) if p.returncode]
    # Those that have missed another come behind it: they have said so, or JAX has ended them.
    index, status = min(
        statuses, key=lambda found: (found[0] in told.problems, found[1] == -signal.SIGABRT)
    )
    how = f"status {status}" if status > 0 else signal.Signals(-status).name
    who = "srun" if labelled else f"process {index} of {len(started)}"
    last = "".join(told.lines.get(index, [])) if index or labelled else ""
    return MlmError(
        f"{LOST}: {who} has ended with {how}. The same command goes on from the last saved state"
        + (f". It said last:\n{last.rstrip()}" if last and status > 0 else "")
    )

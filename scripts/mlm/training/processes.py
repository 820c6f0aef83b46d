"""Several processes that train one run together: how they are started, and what each knows of it.

One of them leads: it alone holds the states' lock, logs, saves, exports and pushes. The others
compute their part of each step. A process finds the others through three variables of its
environment, which whoever starts it sets, or as JAX finds them (`mlm.training.in_jax.together`).
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from mlm.foundations.errors import MlmError, error_in_words

#: Where the processes meet, how many there are, and which one this is.
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
_OF_SLURM = "SLURM_PROCID"
#: Set, to accelerator.start, for a process that `run_together` has started.
_STARTED = "MLM_STARTED_TOGETHER"

#: What the error of a process begins with that misses another.
LOST = "A process of this training was lost"
#: Seconds in which the others may say that one was lost, before they are ended.
_LAST_WORDS = 15.0
#: Seconds in which a training that is to stop may finish its step and save its state.
_TO_STOP = 600.0
#: Seconds in which a second signal is the first one, sent by another to the same training.
_ONE_SIGNAL = 2.0

_BEFORE = "before the first step; nothing was saved"
_AFTER = (
    "after the last step, before all results were written. The same command resumes from the state "
    "after it"
)
#: What a signal interrupts that comes outside of the steps.
_outside = _BEFORE
#: Where a process tells its parent why it ends.
_to_parent = 2


class Peers:
    """The processes of a training as one of them sees them: here, the only one."""

    #: How many there are, which one this is, and whether it leads.
    count, index, leads = 1, 0, True

    def as_one(self) -> AbstractContextManager[None]:
        """What is done inside, all have done at the end; an MlmError of one is that of all."""
        return nullcontext()

    def told(self, value: Any) -> Any:
        """What the process that leads gave, JSON-like."""
        return value

    def check_alike(self, what: dict) -> None:
        """Raise MlmError, naming the difference, unless all gave the same."""

    def agreed(self, stopped_by: str | None) -> str | None:
        """The signal by which all stop after this step; `stopped_by` is this process's own."""
        return stopped_by

    def watched(self) -> AbstractContextManager[None]:
        """Raises MlmError if another process is lost meanwhile."""
        return nullcontext()

    def leave(self) -> None:
        """Part from the others, when all have done their part of the training."""


@dataclass(frozen=True)
class Member:
    """A process of several: number `index` of `count`, which meet at `coordinator`; all None if
    JAX is to find that out."""

    coordinator: str | None = None
    count: int | None = None
    index: int | None = None


def as_member(start: str, processes: int | None, environment: Mapping = os.environ) -> Member:
    """This process as one of several; MlmError if the environment does not say which one."""
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
                "Set all three on every host, or none if JAX finds the others itself"
                if start == "hosts"
                else "Only a training starts the others: set accelerator.processes to null here"
            )
        )
    count, index = (int(v) if v.isdecimal() else 0 for v in (given[COUNT], given[INDEX]))
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


def advice_on_joining(member: Member, environment: Mapping = os.environ) -> str:
    """What to look at if the processes do not find each other, by who has started them."""
    start = environment.get(_STARTED)
    if start == "here":
        return "Look at what the others say above, and at the memory and load of this machine"
    if start == "srun":
        return f"Check that every node of the job reaches {member.coordinator}"
    if member.coordinator is None:
        return (
            f"If JAX does not find the others itself (as on a TPU slice), set {COORDINATOR}, "
            f"{COUNT} and {INDEX} on every host"
        )
    return (
        f"Check that {COUNT} is the number of those that were started, and that {COORDINATOR} can "
        "be reached from every host, with its port"
    )


@contextmanager
def one_of_several() -> Iterator[dict]:
    """In one of several processes: what its parent asks for; what ends it is told to the parent.

    It ends at once, since what waits for the others at the usual end of a process waits for ever if
    they are gone. Of processes on one machine the first alone prints.
    """
    global _to_parent
    _to_parent = os.dup(1)
    os.dup2(2, 1)
    index = os.environ.get(INDEX) or os.environ.get(_OF_SLURM)
    if os.environ.get(_STARTED) != "hosts" and index not in (None, "0"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    def stop(number, _frame):
        tell_parent(f"Stopped by {signal.Signals(number).name} {_outside}")
        _end(128 + number)

    # Until the steps begin, and when they have ended.
    signal.signal(signal.SIGTERM, stop)
    # One line, behind which the parent leaves the stream open: it ends with the parent.
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        yield request
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else 1)
    except Exception as error:
        tell_parent(error_in_words(error) or traceback.format_exc())
        _end(1)


def tell_parent(words: str) -> None:
    """Say why this process ends."""
    with suppress(OSError):
        os.write(_to_parent, f"{json.dumps(words)}\n".encode())


def _end(status: int) -> NoReturn:
    with suppress(OSError, RuntimeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    # Nobody else is left to end a process that waits for another.
    time.sleep(_TO_STOP)
    os._exit(128 + signal.SIGTERM)


def steps_have_ended() -> None:
    """From here on a signal comes after the last step."""
    global _outside
    _outside = _AFTER


class _Stop:
    """Signals that stop a training: they go to its processes, which agree on a step to stop at.

    Those that do not end are killed: at a second signal, or after a while.
    """

    def __init__(self):
        self.started: list[subprocess.Popen] = []
        self.by, self.at, self.killed = None, 0.0, None

    def __call__(self, number: int, _frame: Any) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        if self.by is None:
            self.by, self.at = name, now
            self.pass_on()
        elif now > self.at + _ONE_SIGNAL:
            self.kill(f"a second signal came, {name}")

    def pass_on(self) -> None:
        # Not SIGINT: to it they are deaf until the steps begin.
        for process in self.started:
            process.terminate()

    def kill(self, why: str | None = None) -> None:
        self.killed = self.killed or why
        for process in self.started:
            process.kill()

    @contextmanager
    def heard(self) -> Iterator[None]:
        previous = {s: signal.signal(s, self) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def wait(self) -> None:
        """Until all have ended; after one has failed, the others have a moment to say something."""
        end: float | None = None
        while any(process.poll() is None for process in self.started):
            now = time.monotonic()
            if end is None and any(process.returncode for process in self.started):
                end = now + _LAST_WORDS
            if end is not None and now > end:
                self.kill()
            if self.by is not None and now > self.at + _TO_STOP:
                self.kill(f"they had not ended after {_TO_STOP:.0f} s")
            time.sleep(0.05)


def run_together(script: str, request: dict, processes: int | None, start: str) -> None:
    """Run `script` in so many processes, each of which reads `request`; return when all have ended.
    If `start` is hosts, in the one of this host, which finds the others itself.

    SIGTERM and SIGINT are passed on to them. Raises MlmError with what the first of them raised
    that failed, or if one was lost; the others are ended then.
    """
    command = [sys.executable, script]
    environment, stop = os.environ | {_STARTED: start}, _Stop()
    with ExitStack() as held:
        environments = [environment]
        if start != "hosts":
            here = socket.gethostname() if start == "srun" else "127.0.0.1"
            environment[COORDINATOR] = f"{here}:{held.enter_context(_held_port())}"
            environment[COUNT] = str(processes)
        if start == "srun":
            command = [*_srun(), f"--ntasks={processes}", "--kill-on-bad-exit=1", *command]
        elif start == "here":
            environments = [environment | {INDEX: str(index)} for index in range(processes)]
        held.enter_context(stop.heard())
        for of_process in environments:
            stop.started.append(_started(command, of_process))
        printing = [
            threading.Thread(target=_print, args=[p.stderr], daemon=True) for p in stop.started
        ]
        for thread in printing:
            thread.start()
        if stop.by is not None:
            stop.pass_on()
        for process in stop.started:
            # One that has ended by now says why itself.
            with suppress(OSError):
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
        stop.wait()
        for thread in printing:
            thread.join(_LAST_WORDS)
    said = [line for process in stop.started for line in process.stdout.read().splitlines()]
    for process in stop.started:
        with suppress(OSError):
            process.stdin.close()
    if any(process.returncode for process in stop.started):
        raise _failure(stop, said, start)


def _print(lines: Iterable[str]) -> None:
    """Here, since the log of the job has what this process prints."""
    for line in lines:
        sys.stderr.write(line)


def _started(command: list[str], environment: Mapping) -> subprocess.Popen:
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # Ctrl-C at a terminal goes to them as well, also while they are Python's to set up.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
    )


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


@contextmanager
def _held_port() -> Iterator[int]:
    """A free port, which others do not get meanwhile: only who asks to share it may listen there,
    as JAX's service does."""
    with socket.socket() as holder:
        holder.bind(("", 0))
        # Afterwards: asked for before, it would be given one that another training holds.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield holder.getsockname()[1]


def _failure(stop: _Stop, said: list[str], start: str) -> MlmError:
    """Why the processes have ended, as the first of them says that knows."""
    words = [json.loads(line) for line in said if line.startswith('"')]
    # One that misses another comes behind it, and so does one that JAX has aborted for it.
    if known := [problem for problem in words if LOST not in problem]:
        return MlmError(
            known[0].replace("Stopped by SIGTERM", f"Stopped by {stop.by or 'SIGTERM'}")
        )
    if stop.killed is not None:
        return MlmError(
            f"Stopped by {stop.by}, and the processes were killed, since {stop.killed}. Nothing "
            "since the last saved state was kept; the same command resumes from it, or starts anew "
            "without one"
        )
    if stop.by is not None:
        # Python was not ready to say so.
        return MlmError(f"Stopped by {stop.by} {_BEFORE}")
    failed = [(i, p.returncode) for i, p in enumerate(stop.started) if p.returncode]
    index, status = min(failed, key=lambda found: found[1] in (1, -signal.SIGABRT))
    if status == 1 and words:
        return MlmError(words[0])
    how = f"status {status}" if status > 0 else signal.Signals(-status).name
    who = {"srun": "srun", "hosts": "that of this host"}.get(
        start, f"process {index} of {len(stop.started)}"
    )
    return MlmError(
        f"{LOST}: {who} has ended with {how}. The same command resumes from the last saved state"
    )

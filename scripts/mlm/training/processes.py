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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, Protocol

from mlm.foundations.errors import MlmError, in_words

#: Where the processes meet, how many there are, and which one this is.
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
_OF_SLURM = "SLURM_PROCID"
#: Set, to accelerator.start, for a process that `run_together` has started.
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
#: Seconds in which a training that is to stop may finish its step and save its state.
_TO_STOP = 600.0
#: Seconds in which a second signal is the first one, sent by another to the same training.
_ONE_SIGNAL = 2.0

_BEFORE = "before the first step; nothing was saved"
_AFTER = (
    "after the last step, before all results were written. The same command goes on from the state "
    "after it"
)
#: What a signal stops that comes outside of the steps.
_outside = _BEFORE


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
    """In one of several processes: what ends it is told to its parent, and ends it now.

    The others may be gone or wait for this one, and what waits for them at the usual end of a
    process waits for ever.
    """

    def stop(number, _frame):
        # What is printed by the usual way may be under way just now.
        words = problem_line(f"Stopped by {signal.Signals(number).name} {_outside}")
        with suppress(OSError):
            os.write(sys.stderr.fileno(), f"{words}\n".encode())
        _end(128 + number)

    # Until the steps begin, and when they have ended.
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else 1)
    except Exception as error:
        words = in_words(error)
        # The output may be a file on a full disk as well.
        with suppress(OSError):
            if words is None:
                traceback.print_exc()
            else:
                print(problem_line(words), file=sys.stderr)
        _end(1)


def _end(status: int) -> NoReturn:
    with suppress(OSError, RuntimeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def steps_have_ended() -> None:
    """From here on a signal comes after the last step."""
    global _outside
    _outside = _AFTER


def problem_line(words: str) -> str:
    """The line by which a process tells its parent why it ends."""
    return f"{_PROBLEM}{json.dumps(words)}"


def advice_on_joining(member: Member, environment: Mapping = os.environ) -> str:
    """What to look at where the processes do not find each other, by who has started them."""
    start = environment.get(_STARTED)
    if start == "here":
        return "Look at what the others say above, and at the memory and load of this machine"
    if start == "srun":
        return f"Check that every node of the job reaches {member.coordinator}"
    if member.coordinator is None:
        return (
            f"Where JAX does not find the others itself (as on a TPU slice), set {COORDINATOR}, "
            f"{COUNT} and {INDEX} on every host"
        )
    return (
        f"Check that {COUNT} is the number of those that were started, and that {COORDINATOR} can "
        "be reached from every host, with its port"
    )


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
    # Nobody else is left to end a process that waits for another.
    time.sleep(_TO_STOP)
    os._exit(128 + signal.SIGTERM)


@dataclass
class _Told:
    """What processes have said: of each, the last lines, and why it ended; and all warnings."""

    lines: dict[int, list[str]] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    warnings: set[str] = field(default_factory=set)

    def take(self, index: int, line: str) -> None:
        """A line of process `index`; the first one's are shown, and warnings of others that no
        other has given before."""
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
        warning = line.startswith("Warning")
        if index == 0:
            sys.stderr.write(line)
        elif warning and line not in self.warnings:
            sys.stderr.write(f"Process {index}: {line}")
        if warning:
            self.warnings.add(line)


@dataclass
class _Stop:
    """Signals that stop a training: they go to its processes, which agree on a step to stop at.

    Those that do not end are killed: at a second signal, or after a while.
    """

    started: list[subprocess.Popen]
    by: str | None = None
    at: float = 0.0
    #: Why the processes were killed.
    killed: str | None = None

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

    def look(self) -> None:
        """Kill the processes where they have had their time."""
        if self.by is not None and time.monotonic() > self.at + _TO_STOP:
            self.kill(f"they had not ended after {_TO_STOP:.0f} s")

    def kill(self, why: str) -> None:
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


def run_together(script: str, request: dict, processes: int | None, start: str) -> None:
    """Run `script` in so many processes, each of which reads `request`; return when all have ended.
    Where `start` is hosts, in the one of this host, which finds the others itself.

    SIGTERM and SIGINT are passed on to them. Raises MlmError with what the first of them raised
    that failed, or where one was lost; the others are ended then.
    """
    command = [sys.executable, script]
    environment = os.environ | {_STARTED: start}
    told, stop, labelled = _Told(), _Stop([]), start == "srun"
    with ExitStack() as held:
        if start == "hosts":
            environments = [environment]
        else:
            here = socket.gethostname() if labelled else "127.0.0.1"
            environment[COORDINATOR] = f"{here}:{held.enter_context(_held_port())}"
            environment[COUNT] = str(processes)
            environments = [environment | {INDEX: str(index)} for index in range(processes)]
        if labelled:
            tasks = [f"--ntasks={processes}", "--label", "--kill-on-bad-exit=1"]
            command = [*_srun(), *tasks, *command]
            environments = [environment]
        held.enter_context(stop.heard())
        for environment in environments:
            stop.started.append(_started(command, environment))
        if stop.by is not None:
            stop.pass_on()
        readers = [
            threading.Thread(target=_read, args=(told, process.stdout, None if labelled else index))
            for index, process in enumerate(stop.started)
        ]
        for reader in readers:
            reader.start()
        for process in stop.started:
            # One that has ended by now says why itself.
            with suppress(OSError):
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
        _wait(stop)
    for reader in readers:
        reader.join()
    for process in stop.started:
        with suppress(OSError):
            process.stdin.close()
    if any(process.returncode for process in stop.started):
        raise _failure(told, stop, start)


def _started(command: Sequence[str], environment: Mapping) -> subprocess.Popen:
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
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


def _wait(stop: _Stop) -> None:
    """Until all have ended; after one has failed, the others have a moment to say something."""
    end: float | None = None
    while any(process.poll() is None for process in stop.started):
        if end is None and any(process.returncode for process in stop.started):
            end = time.monotonic() + _LAST_WORDS
        if end is not None and time.monotonic() > end:
            for process in stop.started:
                process.kill()
        stop.look()
        time.sleep(0.05)


def _failure(told: _Told, stop: _Stop, start: str) -> MlmError:
    """Why the processes have ended, as the first of them says that knows."""
    known = [told.problems[i] for i in sorted(told.problems) if LOST not in told.problems[i]]
    statuses = [(i, p.returncode) for i, p in enumerate(stop.started) if p.returncode]
    if known:
        return MlmError(
            known[0].replace("Stopped by SIGTERM", f"Stopped by {stop.by or 'SIGTERM'}")
        )
    if stop.killed is not None:
        return MlmError(
            f"Stopped by {stop.by}, and the processes were killed, since {stop.killed}. Nothing "
            "since the last saved state was kept; the same command goes on from it, or anew where "
            "there is none"
        )
    if stop.by and {-signal.SIGTERM, 128 + signal.SIGTERM} & {status for _, status in statuses}:
        # Python was not ready to say so.
        return MlmError(f"Stopped by {stop.by} {_BEFORE}")
    # Those that have missed another come behind it: they have said so, or JAX has ended them.
    index, status = min(
        statuses, key=lambda found: (found[0] in told.problems, found[1] == -signal.SIGABRT)
    )
    if index in told.problems:
        return MlmError(told.problems[index])
    how = f"status {status}" if status > 0 else signal.Signals(-status).name
    others = {"srun": "srun", "hosts": "that of this host"}
    who = others.get(start, f"process {index} of {len(stop.started)}")
    last = "".join(told.lines.get(index, [])) if index or start == "srun" else ""
    return MlmError(
        f"{LOST}: {who} has ended with {how}. The same command goes on from the last saved state"
        + (f". It said last:\n{last.rstrip()}" if last and status > 0 else "")
    )

"""Several processes that train one run together: how a job starts them and learns why one ended.

Process 0 leads: it alone holds the states' lock, logs, saves and pushes. A process finds its peers
by three variables of its environment, or as JAX finds them (`mlm.training.in_jax.together`).
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
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, NoReturn

from mlm.foundations.errors import MlmError, error_in_words

#: Where the processes meet, how many there are, and which one this is.
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
INDEX_OF_SLURM = "SLURM_PROCID"
#: Begins the error of a process that misses a peer.
LOST = "A process of this training was lost"
#: Seconds in which the peers of a process that failed may say why, before they are killed.
_LAST_WORDS = 15.0
#: Seconds in which a training that is to stop may finish its step and save its state.
_TO_STOP = 600.0
#: Where a process tells the job why it ends.
_to_job = 1


class Peers:
    """The processes of a training as one of them sees them: here, the only one."""

    #: How many there are, which one this is, and whether it leads.
    count, index, leads = 1, 0, True

    def told(self, value: Any) -> Any:
        """What the process that leads gave, JSON-like."""
        return value

    def check_alike(self, what: dict) -> None:
        """Raise MlmError, naming the difference, unless all gave the same."""

    def agreed(self, stopped_by: str | None) -> str | None:
        """The signal by which all stop after this step; `stopped_by` is this process's own."""
        return stopped_by

    def watched(self) -> AbstractContextManager[None]:
        """Raises MlmError if a peer is lost meanwhile."""
        return nullcontext()

    def leave(self) -> None:
        """Part from the peers, when all have done their part of the training."""


@contextmanager
def noted_signals(told: str | None = None) -> Iterator[list[str]]:
    """Collects the names of SIGTERM and SIGINT instead of ending; each prints what is `told`."""
    names: list[str] = []

    def note(number: int, _frame: Any) -> None:
        names.append(signal.Signals(number).name)
        if told is not None:
            print(f"{names[-1]}: {told}", file=sys.stderr)

    previous = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield names
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def one_of_several() -> Iterator[dict]:
    """In a process that `run_together` has started: what to do; the job is told what ends it."""
    global _to_job
    _to_job = os.dup(1)
    os.dup2(2, 1)
    start, request = json.loads(sys.stdin.readline())
    if start != "hosts" and int(os.environ.get(INDEX) or os.environ.get(INDEX_OF_SLURM) or 0):
        # All print the same: of those of one job the first is enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=_end_with_job, daemon=True).start()
    try:
        yield request
    except SystemExit:  # by a signal outside of the steps
        os._exit(1)
    except Exception as error:
        end(error_in_words(error) or traceback.format_exc())


def end(reason: str) -> NoReturn:
    """End this process at once, without waiting for its peers, and tell the job why."""
    with suppress(OSError):
        os.write(_to_job, f"{json.dumps(reason)}\n".encode())
    os._exit(1)


def _end_with_job() -> None:
    # The job leaves the stream open until it ends. Not sys.stdin, which Python's own end closes.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_TO_STOP)
    os._exit(1)


def run_together(script: str, request: dict, processes: int | None, start: str) -> None:
    """Run `script` in so many processes, each of which reads `request`, or in one if `start` is
    hosts; return when all have ended.

    SIGTERM and SIGINT are passed on. If one fails or is lost, the others are ended and MlmError is
    raised with what the first of them said.
    """
    command, environments = [sys.executable, script], [dict(os.environ)]
    started: list[subprocess.Popen] = []
    with ExitStack() as held:
        if start != "hosts":
            here = socket.gethostname() if start == "srun" else "127.0.0.1"
            meeting = {COORDINATOR: f"{here}:{held.enter_context(_held_port())}"}
            meeting[COUNT] = str(processes)
            environments = [os.environ | meeting]
        if start == "srun":
            command = [_srun(), f"--ntasks={processes}", "--kill-on-bad-exit=1", *command]
        elif start == "here":
            environments = [environments[0] | {INDEX: str(index)} for index in range(processes)]
        stopped_by = held.enter_context(noted_signals())
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        for own in environments:
            started.append(subprocess.Popen(command, env=own, errors="replace", **streams))
        printing = [threading.Thread(target=_print, args=[p.stderr], daemon=True) for p in started]
        for process, thread in zip(started, printing, strict=True):
            thread.start()
            with suppress(OSError):  # it has ended, and says why
                process.stdin.write(json.dumps([start, request]) + "\n")
                process.stdin.flush()
        _wait(started, stopped_by)
        for thread in printing:
            thread.join(_LAST_WORDS)
    said = [json.loads(s) for p in started for s in p.stdout if s.startswith('"')]
    for process in started:
        with suppress(OSError):
            process.stdin.close()
    if any(process.returncode for process in started):
        raise _failure(started, said, stopped_by)


def _print(lines) -> None:
    """By this process, whose output the job's log copies."""
    for line in lines:
        sys.stderr.write(line)


def _wait(started: list[subprocess.Popen], stopped_by: list[str]) -> None:
    """Until all have ended. Once one has failed, or a signal was passed on, for a while only."""
    asked, until = False, float("inf")
    while any(process.poll() is None for process in started):
        now = time.monotonic()
        if stopped_by and not asked:
            asked, until = True, now + _TO_STOP
            for process in started:
                process.terminate()
        if any(process.returncode for process in started):
            until = min(until, now + _LAST_WORDS)
        if now > until:
            for process in started:
                process.kill()
        time.sleep(0.05)


def _srun() -> str:
    if not os.environ.get("SLURM_JOB_ID"):
        raise MlmError(
            "accelerator.start: srun, but this is no job of Slurm (SLURM_JOB_ID is not set). Run "
            "with --profile profiles/slurm and mpi: srun below pretrain, or set start: here"
        )
    program = shutil.which("srun")
    if program is None:
        raise MlmError("accelerator.start: srun, but there is no srun on the PATH of the job")
    return program


@contextmanager
def _held_port() -> Iterator[int]:
    """A free port that no one else gets meanwhile, unless they ask to share it as JAX does."""
    with socket.socket() as holder:
        holder.bind(("", 0))
        # Set before, it could bind a port that another training holds.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield holder.getsockname()[1]


def _failure(started: list[subprocess.Popen], said: list[str], stopped_by: list[str]) -> MlmError:
    """Why the processes have ended; one that misses a peer knows least."""
    if knowing := [words for words in said if LOST not in words]:
        return MlmError(knowing[0])
    resumes = "The same command resumes from the last saved state, if there is one"
    if stopped_by:
        return MlmError(
            f"Stopped by {stopped_by[0]}, before the first step, after the last, or without an "
            f"answer of the processes. {resumes}"
        )
    failed = [(i, p.returncode) for i, p in enumerate(started) if p.returncode]
    # JAX aborts a process that misses a peer.
    index, status = min(failed, key=lambda one: one[1] in (1, -signal.SIGABRT))
    if status == 1 and said:
        return MlmError(said[0])
    how = f"status {status}" if status > 0 else signal.Signals(-status).name
    who = f"process {index} of {len(started)}" if len(started) > 1 else "the one started here"
    return MlmError(f"{LOST}: {who} ended with {how}. {resumes}")

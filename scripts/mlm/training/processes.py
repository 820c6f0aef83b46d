"""Several processes that train one run: how a job starts them and learns why one ended, and how
they agree and notice a lost one, as `jax.distributed` joins them.

Process 0 leads: it alone holds the states' lock, logs and saves.
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

from mlm.config.accelerator import Accelerator
from mlm.foundations.differences import differences
from mlm.foundations.errors import MlmError, error_in_words, first_line, listed

#: Where the processes meet, how many there are, and which one this is.
COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
_INDEX_OF_SLURM = "SLURM_PROCID"
#: Begins the error of a process that misses a peer.
_LOST = "A process of this training was lost"
#: What XLA says if a device of another process does not answer.
_SIGNS_OF_LOSS = (
    *("gloo", "coordination service", "connection reset", "connection closed", "unavailable"),
    *("heartbeat", "deadline_exceeded", "socket closed", "broken pipe"),
)
_RESUMES = "The same command resumes from the last saved state, if there is one"
#: Seconds in which the peers of a process that failed may say why, before they are killed.
_LAST_WORDS = 15.0
#: Seconds in which a training that is to stop may finish its step and save its state.
_TO_STOP = 600.0
#: Where a process tells the job why it ends.
_to_job = 1


class Peers:
    """The processes of a training as one of them sees them: here, the only one."""

    #: How many there are, and whether this one leads.
    count, leads = 1, True

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


class _JoinedPeers(Peers):
    """Those that JAX has joined; `store` is that of its coordination service."""

    def __init__(self, store: Any, count: int, index: int):
        self.count, self.leads = count, index == 0
        self._index, self._store, self._exchanges = index, store, 0

    def told(self, value: Any) -> Any:
        return self._gathered(value if self.leads else None)[0]

    def check_alike(self, what: dict) -> None:
        first, *others = self._gathered(what)
        found = [
            f"process {index}: {line}"
            for index, given in enumerate(others, 1)
            for line in differences(first, given, words=("in process 0", "there"))[:8]
        ]
        if found:
            self.leave()
            raise MlmError(
                "The processes of this training do not have the same configuration, code, packages "
                f"and data. What differs from process 0:\n{listed(found)}\nGive every host the "
                "same, and start again; nothing was trained"
            )

    def agreed(self, stopped_by: str | None) -> str | None:
        import numpy as np
        from jax.experimental import multihost_utils

        number = np.int32(signal.Signals[stopped_by] if stopped_by else 0)
        found = int(multihost_utils.process_allgather(number).max())
        return signal.Signals(found).name if found else None

    @contextmanager
    def watched(self) -> Iterator[None]:
        import jax

        try:
            yield
        # A collective that fails as it is dispatched, and not as it is awaited, is a ValueError.
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            said = str(error)
            if not any(sign in said.lower() for sign in _SIGNS_OF_LOSS):
                raise
            raise MlmError(
                f"{_LOST} ({said.splitlines()[0][:200]}). Its own output says why. {_RESUMES}"
            ) from error

    def leave(self) -> None:
        import jax

        jax.distributed.shutdown()

    def _gathered(self, value: Any) -> list:
        """What each process gave, in their order: through the store, since a collective gives up on
        a peer that takes long."""
        self._exchanges += 1
        keys = [f"mlm/{self._exchanges}/{index}" for index in range(self.count)]
        with self.watched():
            self._store.key_value_set(keys[self._index], json.dumps(value))
            return [json.loads(self._waited_for(key)) for key in keys]

    def _waited_for(self, key: str) -> str:
        while True:
            try:
                # A second at a time, between which signals are noticed.
                return self._store.blocking_key_value_get(key, 1000)
            except RuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise


def meeting(settings: Accelerator, environment=os.environ) -> dict:
    """Arguments of `jax.distributed.initialize`; none if JAX is to find the peers itself. MlmError
    if the environment does not say which process this is."""
    given = {name: environment.get(name) for name in (COORDINATOR, COUNT, INDEX)}
    if settings.start == "srun":
        given[INDEX] = given[INDEX] or environment.get(_INDEX_OF_SLURM)
    if settings.start == "hosts" and not any(given.values()):
        return {}
    address, *numbers = given.values()
    count, index = (int(n) if n and n.isdecimal() else -1 for n in numbers)
    if not address or not 0 <= index < count or settings.processes not in (None, count):
        found = ", ".join(f"{name}={value or ''}" for name, value in given.items())
        raise MlmError(
            f"accelerator.processes: {settings.processes}, but the environment has {found}. With "
            f"start: hosts, set {COORDINATOR} to address and port of the first, {COUNT} to the "
            f"number of processes and {INDEX} to 0, 1, ... on every host, or none of them if JAX "
            "finds the peers itself. Only a training starts processes: elsewhere set processes to "
            "null"
        )
    return {"coordinator_address": address, "num_processes": count, "process_id": index}


def join(settings: Accelerator) -> Peers:
    """Join the other processes, before JAX is asked for its devices. Raises MlmError if they are
    not found, and ends this process if they do not come."""
    import jax

    found, seconds = meeting(settings), settings.join_seconds
    # For CPUs; devices of other kinds have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # Signals are the training's.
    jax.config.update("jax_enable_preemption_service", False)
    where = found.get("coordinator_address", "the address that JAX found")
    problem = (
        f"accelerator.processes: not all processes came to {where} within {seconds} s. Check that "
        f"all were started, reach it, and that {COUNT} is their number. accelerator.join_seconds "
        "is how long to wait"
    )
    patience = threading.Timer(seconds, _end, [problem])
    patience.daemon = True
    patience.start()
    try:
        jax.distributed.initialize(
            **found,
            cluster_detection_method="deactivate" if found else None,
            initialization_timeout=seconds + 60,
        )
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        raise MlmError(
            f"accelerator.start: the processes could not be joined at {where} "
            f"({first_line(error)}). With start: hosts, set {COORDINATOR}, {COUNT} and {INDEX} on "
            "every host"
        ) from error
    finally:
        patience.cancel()
    # The store has no public name.
    from jax._src.distributed import global_state

    return _JoinedPeers(global_state.client, jax.process_count(), jax.process_index())


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
    if start != "hosts" and int(os.environ.get(INDEX) or os.environ.get(_INDEX_OF_SLURM) or 0):
        # All print the same: of those of one job the first is enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=_end_with_job, daemon=True).start()
    try:
        yield request
    except SystemExit:  # by a signal outside of the steps
        os._exit(1)
    except Exception as error:
        _end(error_in_words(error) or traceback.format_exc())


def _end(reason: str) -> NoReturn:
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
    hosts. Signals are passed on. If one fails or is lost, the others are ended and MlmError is
    raised with what the first of them said."""
    command, environments = [sys.executable, script], [dict(os.environ)]
    with ExitStack() as held:
        if start != "hosts":
            here = socket.gethostname() if start == "srun" else "127.0.0.1"
            port = held.enter_context(_held_port())
            environments[0] |= {COORDINATOR: f"{here}:{port}", COUNT: str(processes)}
        if start == "srun":
            command = [_srun(), f"--ntasks={processes}", "--kill-on-bad-exit=1", *command]
        elif start == "here":
            environments = [environments[0] | {INDEX: str(index)} for index in range(processes)]
        stopped_by = held.enter_context(noted_signals())
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started = [
            subprocess.Popen(command, env=own, errors="replace", **streams) for own in environments
        ]
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
    if program := shutil.which("srun"):
        return program
    raise MlmError("accelerator.start: srun, but there is no srun on the PATH of the job")


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
    if knowing := [words for words in said if _LOST not in words]:
        return MlmError(knowing[0])
    if stopped_by:
        return MlmError(
            f"Stopped by {stopped_by[0]}, before the first step, after the last, or without an "
            f"answer of the processes. {_RESUMES}"
        )
    failed = [(i, p.returncode) for i, p in enumerate(started) if p.returncode]
    # JAX aborts a process that misses a peer.
    index, status = min(failed, key=lambda one: one[1] in (1, -signal.SIGABRT))
    if status == 1 and said:
        return MlmError(said[0])
    how = f"status {status}" if status > 0 else signal.Signals(-status).name
    who = f"process {index} of {len(started)}" if len(started) > 1 else "the one started here"
    return MlmError(f"{_LOST}: {who} ended with {how}. {_RESUMES}")

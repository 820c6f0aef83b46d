"""Several processes that train one run: started here, by Slurm or on every host, and joined by
`jax.distributed`. Process 0 alone holds the states' lock, logs and saves."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.foundations.digests import value_sha256
from mlm.foundations.errors import MlmError, error_in_words, first_line, listed
from mlm.foundations.signals import end_with_parent, noted_signals
from mlm.foundations.terminal import show

#: Address and port of process 0, and which process this is; Slurm has a name of its own for that.
COORDINATOR, INDEX, _OF_SLURM = "JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "SLURM_PROCID"
#: What XLA says if a device of another process does not answer.
_SIGNS_OF_LOSS = "gloo", "coordination", "connection", "unavailable", "deadline", "socket"
_RESUMES = "The same command resumes from the last saved state, if there is one"
#: Seconds to finish a step and save after a signal, and to end after a peer has failed.
_TO_STOP, _AFTER_FAILURE = 600, 15


@dataclass(frozen=True)
class Peers:
    """The processes of a training as one of them sees them; by default it is the only one."""

    count: int = 1
    index: int = 0

    @property
    def is_rank0(self) -> bool:
        return self.index == 0

    def gather(self, numbers: Any) -> np.ndarray:
        """Return the int32 `numbers` of every process, in their order."""
        if self.count == 1:
            return np.array([numbers], np.int32)
        from jax.experimental.multihost_utils import process_allgather

        return process_allgather(np.int32(numbers))

    def broadcast(self, value: Any) -> Any:
        """Return the JSON-like `value` of process 0."""
        data = np.frombuffer(json.dumps(value).encode(), np.uint8)
        longest = self.gather(data.size).max()
        texts = self.gather(np.pad(data, (0, longest - data.size), constant_values=ord(" ")))
        return json.loads(bytes(texts[0].tolist()))

    def any_stop_signal(self, name: str | None) -> str | None:
        """Return the signal by which all stop after this step; `name` is this process's."""
        number = self.gather(signal.Signals[name] if name else 0).max()
        return signal.Signals(number).name if number else None

    def assert_same_config(self, parts: dict) -> None:
        """Raise MlmError, which names processes and parts, unless all have the same `parts`."""
        digests = self.gather([list(bytes.fromhex(value_sha256(v))) for v in parts.values()])
        names, differs = np.array(list(parts)), (digests != digests[0]).any(axis=2)
        if not differs.any():
            return
        self.leave()
        lines = [f"process {i}: {', '.join(names[d])}" for i, d in enumerate(differs) if d.any()]
        raise MlmError(
            "The processes of this training do not have the same configuration, code, packages "
            f"and data. What differs from process 0:\n{listed(lines)}\nGive every host the "
            "same, and start again; nothing was trained"
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Context manager: raise MlmError if a collective fails because a process is lost."""
        try:
            yield
        # A collective that fails as it is dispatched, and not as it is awaited, is a ValueError.
        except (RuntimeError, ValueError) as error:
            if self.count == 1 or not any(sign in str(error).lower() for sign in _SIGNS_OF_LOSS):
                raise
            raise MlmError(
                f"A process of this training was lost ({first_line(error)}). Its own output says "
                f"why. {_RESUMES}"
            ) from error

    def leave(self) -> None:
        """Part from the others, once all have come to this."""
        if self.count > 1:
            import jax

            jax.distributed.shutdown()


def started_on_hosts(settings: Accelerator) -> bool:
    """Whether this command is one of those, one a host, that train together."""
    on_tpus = settings.kind == "tpu" and not settings.virtual_replicas
    return settings.together and (on_tpus or COORDINATOR in os.environ)


def join(settings: Accelerator) -> Peers:
    """Join the peers, before JAX opens its devices; MlmError if the environment does not say how.
    JAX ends this process if they do not come within five minutes, or fall silent later."""
    import jax

    # For CPUs; devices of other kinds have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # Signals are the training's.
    jax.config.update("jax_enable_preemption_service", False)
    address, index = os.environ.get(COORDINATOR), os.environ.get(INDEX, os.environ.get(_OF_SLURM))
    show(f"Waits for {settings.processes} processes at {address or 'the address that JAX finds'}")
    try:
        jax.distributed.initialize(
            coordinator_address=address,
            num_processes=settings.processes,
            process_id=int(index or "") if address else None,
            cluster_detection_method="deactivate" if address else None,
        )
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        raise MlmError(
            f"accelerator.processes: {settings.processes} processes cannot be joined "
            f"({first_line(error)}). On every host set {COORDINATOR} to address and port of the "
            f"first, and {INDEX} to 0, 1, ..., unless JAX finds the hosts itself"
        ) from error
    _connect_devices()
    return Peers(settings.processes or 1, jax.process_index())


def _connect_devices() -> None:
    """Have the devices connect while all processes are here: each group that collectives use gives
    up after 30 seconds in which a peer does not come, once, but waits long for one that did."""
    import jax
    from jax.experimental.multihost_utils import sync_global_devices
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sync_global_devices("joined")
    devices = np.array(jax.devices())
    divided = NamedSharding(Mesh(devices, ("data",)), PartitionSpec("data"))
    ones = jax.make_array_from_callback(devices.shape, divided, lambda _: np.ones(1))
    jax.jit(lambda x: x.sum())(ones).block_until_ready()


def run_together(script: str, request: dict, processes: int, srun: str | None = None) -> None:
    """Run `script` in so many processes, each with `request` as its argument: as tasks of the
    command `srun`, or on this machine. A signal, or the failure of one, stops all: MlmError."""
    command = [sys.executable, script, json.dumps(request)]
    host, environments = "127.0.0.1", [{INDEX: str(index)} for index in range(processes)]
    if srun:
        command = [*shlex.split(srun), f"--ntasks={processes}", "--kill-on-bad-exit=1", *command]
        host, environments = socket.gethostname(), [{}]
    with socket.socket() as free:
        free.bind(("", 0))
        common = os.environ | {COORDINATOR: f"{host}:{free.getsockname()[1]}"}
    show(f"{processes} processes train together; their progress is in the log")
    with noted_signals() as signals:
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": 2}
        started = [subprocess.Popen(command, env=common | e, **how) for e in environments]
        while not signals and None in (ends := [p.poll() for p in started]) and not any(ends):
            time.sleep(0.05)
        for process in started:
            process.terminate()
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TO_STOP if signals else _AFTER_FAILURE)
            process.kill()
            process.wait()
    if any(p.returncode for p in started):
        why = f"Stopped by {signals[0]}" if signals else "A process of this training failed"
        ends = ", ".join(f"process {i} {p.returncode}" for i, p in enumerate(started))
        raise MlmError(f"{why} (exit status: {ends}). The log says more. {_RESUMES}")


def as_member(train: Callable[[dict, bool], None]) -> None:
    """In a process that `run_together` has started: call `train` with the request, and whether this
    is process 0, whose progress is enough for the log. Errors of every process are printed."""
    end_with_parent()
    is_rank0 = (os.environ.get(INDEX) or os.environ[_OF_SLURM]) == "0"
    try:
        with nullcontext() if is_rank0 else redirect_stderr(open(os.devnull, "w")):
            return train(json.loads(sys.argv[1]), is_rank0)
    except Exception as error:
        print(error_in_words(error) or traceback.format_exc(), file=sys.stderr)
    except SystemExit:  # by a signal outside of the steps
        pass
    os._exit(1)  # At once: JAX would wait for the peers.

"""Several processes as `jax.distributed` joins them: how they agree, and notice a lost one."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from mlm.config.accelerator import Accelerator
from mlm.foundations.differences import differences
from mlm.foundations.errors import MlmError, listed
from mlm.training.processes import COORDINATOR, COUNT, INDEX, INDEX_OF_SLURM, LOST, Peers, end

#: What XLA says if a device of another process does not answer.
_SIGNS_OF_LOSS = (
    *("gloo", "coordination service", "connection reset", "connection closed", "unavailable"),
    *("heartbeat", "deadline_exceeded", "socket closed", "broken pipe"),
)


def meeting(settings: Accelerator, environment=os.environ) -> dict:
    """Arguments of `jax.distributed.initialize`; none if JAX is to find the peers itself. Raises
    MlmError if the environment does not say which process this is."""
    given = {name: environment.get(name) for name in (COORDINATOR, COUNT, INDEX)}
    if settings.start == "srun":
        given[INDEX] = given[INDEX] or environment.get(INDEX_OF_SLURM)
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


def join(settings: Accelerator) -> "Together":
    """Join the other processes; before JAX is asked for its devices. Raises MlmError if they are
    not found; JAX itself ends a process whose peers do not come."""
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
    patience = threading.Timer(seconds, end, [problem])
    patience.daemon = True
    patience.start()
    try:
        jax.distributed.initialize(
            **found,
            cluster_detection_method="deactivate" if found else None,
            initialization_timeout=seconds + 60,
        )
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MlmError(
            f"accelerator.start: the processes could not be joined at {where} ({reason}). With "
            f"start: hosts, set {COORDINATOR}, {COUNT} and {INDEX} on every host"
        ) from error
    finally:
        patience.cancel()
    # The store has no public name.
    from jax._src.distributed import global_state

    return Together(global_state.client, jax.process_count(), jax.process_index())


class Together(Peers):
    """`count` processes that JAX has joined, of which this one is number `index`."""

    def __init__(self, store: Any, count: int, index: int):
        self.count, self.index, self.leads = count, index, index == 0
        self._store, self._exchanges = store, 0

    def told(self, value: Any) -> Any:
        return self._gathered(value if self.leads else None)[0]

    def check_alike(self, what: dict) -> None:
        all_given = self._gathered(what)
        other = [
            f"process {index}: {line}"
            for index, given in enumerate(all_given)
            for line in differences(all_given[0], given, words=("in process 0", "there"))[:8]
        ]
        if other:
            self.leave()
            raise MlmError(
                "The processes of this training do not have the same configuration, code, packages "
                f"and data. What differs from process 0:\n{listed(other)}\nGive every host the "
                "same, and start again; nothing was trained"
            )

    def agreed(self, stopped_by: str | None) -> str | None:
        number = np.int32(signal.Signals[stopped_by] if stopped_by else 0)
        found = int(multihost_utils.process_allgather(number).max())
        return signal.Signals(found).name if found else None

    @contextmanager
    def watched(self) -> Iterator[None]:
        try:
            yield
        # A collective that fails as it is dispatched, and not as it is awaited, is a ValueError.
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            said = str(error)
            if not any(sign in said.lower() for sign in _SIGNS_OF_LOSS):
                raise
            raise MlmError(
                f"{LOST} ({said.splitlines()[0][:200]}). Its own output says why; the same command "
                "resumes from the last saved state"
            ) from error

    def leave(self) -> None:
        jax.distributed.shutdown()

    def _gathered(self, value: Any) -> list:
        """What each process gave, in their order: through the store of JAX's coordination service,
        since a collective gives up on a peer that takes long."""
        self._exchanges += 1
        keys = [f"mlm/{self._exchanges}/{index}" for index in range(self.count)]
        with self.watched():
            self._store.key_value_set(keys[self.index], json.dumps(value))
            return [json.loads(self._waited_for(key)) for key in keys]

    def _waited_for(self, key: str) -> str:
        while True:
            try:
                # A second at a time, between which signals are noticed.
                return self._store.blocking_key_value_get(key, 1000)
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise

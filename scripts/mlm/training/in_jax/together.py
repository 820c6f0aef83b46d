"""Several processes as JAX joins them: how they meet, agree, and notice that one is lost.

What they tell one another goes through the key-value store of JAX's coordination service, which
the process that leads serves. What they compute goes between the devices themselves.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from mlm.foundations.differences import differences
from mlm.foundations.errors import MlmError, listed
from mlm.training.processes import (
    LOST,
    Member,
    Peers,
    advice_on_joining,
    steps_have_ended,
    tell_parent,
)

#: Milliseconds for which a process waits at a time, between which it notices signals.
_WAIT = 1000
#: What XLA says where a device of another process does not answer.
_SIGNS_OF_LOSS = (
    *("gloo", "coordination service", "connection reset", "connection closed", "unavailable"),
    *("heartbeat", "deadline_exceeded", "socket closed", "broken pipe"),
)


def join(member: Member, seconds: int) -> "Together":
    """Join the other processes; before JAX is asked for its devices.

    Raises MlmError where JAX finds no others. Where they do not come within so many seconds, ends
    the process with a message, since JAX would end it with none.
    """
    import jax

    # Those of a CPU, between processes; devices of other kinds have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # Signals are the training's.
    jax.config.update("jax_enable_preemption_service", False)
    watch = threading.Timer(seconds, _give_up, [member, seconds])
    watch.daemon = True
    watch.start()
    try:
        jax.distributed.initialize(
            member.coordinator,
            member.count,
            member.index,
            cluster_detection_method="deactivate" if member.coordinator else None,
            initialization_timeout=seconds + 60,
        )
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MlmError(
            f"accelerator.start: the processes of this training could not be joined ({reason}). "
            f"{advice_on_joining(member)}"
        ) from error
    finally:
        watch.cancel()
    # The store has no public name.
    from jax._src.distributed import global_state

    return Together(global_state.client, jax.process_count(), jax.process_index())


def _give_up(member: Member, seconds: int) -> None:
    where = member.coordinator or "the address that JAX found"
    if member.index == 0:
        problem = f"only some of {member.count} processes came to {where} within {seconds} s"
    else:
        which = "" if member.index is None else f" by process {member.index} of {member.count}"
        problem = (
            f"the first process was not reached at {where}{which} within {seconds} s. Look whether "
            "it runs"
        )
    tell_parent(
        f"accelerator.processes: {problem}. {advice_on_joining(member)}. accelerator.join_seconds "
        "says how long to wait"
    )
    os._exit(1)


def _raise_in_words(error: Exception) -> NoReturn:
    """Raise the error of a step: in words if it is another process's end."""
    said = str(error)
    if not any(sign in said.lower() for sign in _SIGNS_OF_LOSS):
        raise error
    raise MlmError(
        f"{LOST} ({said.splitlines()[0][:200]}). Its own output says why; the same command resumes "
        "from the last saved state"
    ) from error


class Together(Peers):
    """`count` processes that JAX has joined, of which this one is number `index`; `store` is what
    they tell one another in."""

    def __init__(self, store: Any, count: int, index: int):
        self._store = store
        self.count, self.index, self.leads = count, index, index == 0
        self._exchanges = 0

    @contextmanager
    def as_one(self) -> Iterator[None]:
        problem = None
        try:
            yield
        except MlmError as error:
            problem = str(error)
        found = {i: said for i, said in enumerate(self._exchanged(problem)) if said is not None}
        if not found:
            return
        self._all_have_read()
        first = min(found)
        if found.keys() == {first} and first != 0:
            raise MlmError(f"process {first} of {self.count}: {found[first]}")
        raise MlmError(found[first])

    def told(self, value: Any) -> Any:
        self._exchanges += 1
        key = f"mlm/told/{self._exchanges}"
        if self.leads:
            with self.watched():
                self._store.key_value_set(key, json.dumps(value))
        return json.loads(self._waited_for(key))

    def check_alike(self, what: dict) -> None:
        all_given = self._exchanged(what)
        other = [
            f"process {index}: {line}"
            for index, given in enumerate(all_given)
            for line in differences(all_given[0], given, words=("in process 0", "there"))[:8]
        ]
        if other:
            self._all_have_read()
            raise MlmError(
                "The processes of this training do not have the same configuration, code, packages "
                f"and data. What differs from process 0:\n{listed(other)}\nGive every host the "
                "same, and start again; nothing was trained"
            )

    def agreed(self, stopped_by: str | None) -> str | None:
        from jax.experimental import multihost_utils

        number = np.int32(signal.Signals[stopped_by] if stopped_by else 0)
        with self.watched():
            found = int(multihost_utils.process_allgather(number).max())
        return signal.Signals(found).name if found else None

    @contextmanager
    def watched(self) -> Iterator[None]:
        import jax

        try:
            yield
        # A collective that fails as it is dispatched, and not as it is awaited, is a ValueError.
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            _raise_in_words(error)

    def leave(self) -> None:
        import jax

        steps_have_ended()
        jax.distributed.shutdown()

    def _exchanged(self, value: Any) -> list:
        """What each process gave, in their order."""
        self._exchanges += 1
        keys = [f"mlm/given/{self._exchanges}/{index}" for index in range(self.count)]
        with self.watched():
            self._store.key_value_set(keys[self.index], json.dumps(value))
        return [json.loads(self._waited_for(key)) for key in keys]

    def _all_have_read(self) -> None:
        """Before a process ends for what was exchanged: with the one that leads ends the store."""
        with self.watched():
            self._store.key_value_set(f"mlm/read/{self._exchanges}/{self.index}", "1")
        if self.leads:
            for index in range(self.count):
                self._waited_for(f"mlm/read/{self._exchanges}/{index}")

    def _waited_for(self, key: str) -> str:
        import jax

        while True:
            try:
                return self._store.blocking_key_value_get(key, _WAIT)
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    _raise_in_words(error)

"""The state of a training: saved so that a kill costs time only.

A state is a directory `step-00000200` with the variables, the progress so far, and
`complete.json`, written last, which names every other file with its size and sha256. Locally
it is written under another name and renamed. What is incomplete or damaged is passed over.
"""

import fcntl
import hashlib
import json
import os
import re
import sys
from dataclasses import dataclass, field

from mlm.errors import MlmError
from mlm.framework import tf, tf_keras

_STATE = re.compile(r"step-(\d{8,})/?")


def trackable_state(model, optimizer) -> tf.train.Checkpoint:
    """Everything that a resumed process needs to go on with the same bits.

    The dropout layers' random generators are named one by one: TensorFlow does not find them
    by itself, and without them a resumed training draws other dropouts.
    """
    generators = []
    for layer in model.submodules:
        if isinstance(layer, tf_keras.layers.Dropout):
            generator = getattr(layer._random_generator, "_generator", None)
            if generator is None:
                layer._random_generator._maybe_init()
                generator = layer._random_generator._generator
            if generator is not None:
                generators.append(generator)
    return tf.train.Checkpoint(model=model, optimizer=optimizer, generators=generators)


@dataclass
class StateDirectory:
    """Saved states under `path`, a local directory or a gs:// prefix; the last `keep` stay."""

    path: str
    keep: int
    _lock: object = field(default=None, repr=False)

    @property
    def _local(self) -> bool:
        return "://" not in self.path

    def acquire(self) -> None:
        """Make the directory and lock it for this process; the lock goes with the process.

        Raises MlmError where another process holds it or nothing can be written.
        """
        if not self._local:
            tf.io.gfile.makedirs(self.path)
            return
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = open(os.path.join(self.path, "lock"), "a")
        except OSError as error:
            raise MlmError(
                f"pretraining.checkpoint.directory: cannot write to {self.path} "
                f"({error.strerror}). Training state must be saved somewhere: give the right to "
                "write, or name another directory"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MlmError(
                f"{self.path} is in use: another process trains this very run. Wait for it or "
                "stop it; two writers would spoil each other's state"
            ) from error
        for name in os.listdir(self.path):
            if name.endswith(".partial"):
                tf.io.gfile.rmtree(os.path.join(self.path, name))

    def steps(self) -> list[int]:
        """Steps of the states that are there, newest first, complete or not."""
        if not tf.io.gfile.isdir(self.path):
            return []
        found = (_STATE.fullmatch(name) for name in tf.io.gfile.listdir(self.path))
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def _place(self, step: int) -> str:
        return f"{self.path}/step-{step:08d}"

    def save(self, step: int, state: tf.train.Checkpoint, progress: dict) -> None:
        """Write the state after `step` updates, then drop what is older than the last `keep`.

        Raises MlmError when the disk is full; the states before it stay as they were.
        """
        final = self._place(step)
        place = final + ".partial" if self._local else final
        try:
            tf.io.gfile.makedirs(place)
            state.write(f"{place}/variables")
            _write(f"{place}/progress.json", json.dumps(progress).encode())
            files = {name: _size_and_digest(f"{place}/{name}") for name in _files(place)}
            _write(f"{place}/complete.json", json.dumps(files, sort_keys=True).encode())
            if self._local:
                for name in _files(place):
                    with open(f"{place}/{name}", "rb+") as handle:
                        os.fsync(handle.fileno())
                if tf.io.gfile.exists(final):
                    tf.io.gfile.rmtree(final)
                os.rename(place, final)
        except (OSError, tf.errors.OpError) as error:
            if tf.io.gfile.exists(place):
                tf.io.gfile.rmtree(place)
            raise MlmError(
                f"The state after step {step} could not be saved in {self.path}: "
                f"{str(error).splitlines()[0]}. The states before it are untouched; free space "
                "or rights there, and the same command goes on from the last one"
            ) from error
        for old in self.steps()[self.keep :]:
            tf.io.gfile.rmtree(self._place(old))

    def restore(self, state: tf.train.Checkpoint) -> tuple[int, dict] | None:
        """Load the newest whole state into `state`; its step and progress, or None."""
        for step in self.steps():
            place = self._place(step)
            fault = _fault(place)
            if fault:
                print(f"State {place} is passed over: {fault}", file=sys.stderr)
                continue
            state.read(f"{place}/variables").assert_consumed()
            return step, json.loads(_read(f"{place}/progress.json"))
        return None


def _files(place: str) -> list[str]:
    return sorted(name for name in tf.io.gfile.listdir(place) if name != "complete.json")


def _read(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as handle:
        return handle.read()


def _write(path: str, content: bytes) -> None:
    with tf.io.gfile.GFile(path, "wb") as handle:
        handle.write(content)


def _size_and_digest(path: str) -> list:
    content = _read(path)
    return [len(content), hashlib.sha256(content).hexdigest()]


def _fault(place: str) -> str | None:
    """What is wrong with the state at `place`, in words, or None."""
    marker = f"{place}/complete.json"
    if not tf.io.gfile.exists(marker):
        return "it was never completed"
    for name, expected in json.loads(_read(marker)).items():
        path = f"{place}/{name}"
        if not tf.io.gfile.exists(path):
            return f"{name} is missing"
        if _size_and_digest(path) != expected:
            return f"{name} is damaged"
    return None

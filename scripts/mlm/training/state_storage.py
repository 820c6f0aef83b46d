"""Where states are saved, a directory here or, by TensorFlow, a gs:// prefix: its files, and one
writer at a time."""

import fcntl
import hashlib
import json
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlm.foundations.errors import MlmError

#: Bytes read at a time to take a file's digest.
_PART = 1 << 24
#: Seconds between two renewals of a lease, and how long one must rest to be up for taking.
RENEWAL, REST = 20.0, 70.0


class _Local:
    """What `tf.io.gfile` offers, for this machine's own files."""

    exists, isdir, listdir, remove = os.path.exists, os.path.isdir, os.listdir, os.remove
    GFile, rmtree = open, shutil.rmtree

    @staticmethod
    def makedirs(path: str) -> None:
        os.makedirs(path, exist_ok=True)


def files_at(path: str) -> Any:
    """`tf.io.gfile` for a path in a bucket, or the same functions for one here."""
    if "://" not in path:
        return _Local
    from mlm.foundations.tensorflow_setup import tf

    return tf.io.gfile


def errors_at(path: str) -> tuple[type[Exception], ...]:
    """What the functions of `files_at` raise, and TensorFlow if it writes the state itself."""
    if "://" not in path and "tensorflow" not in sys.modules:
        return (OSError,)
    from mlm.foundations.tensorflow_setup import tf

    return OSError, tf.errors.OpError


def read_bytes(path: str) -> bytes:
    with files_at(path).GFile(path, "rb") as handle:
        return handle.read()


def write_bytes(path: str, content: bytes) -> None:
    with files_at(path).GFile(path, "wb") as handle:
        handle.write(content)


def size_and_digest(path: str) -> list:
    """Size in bytes and sha256, taken a part at a time."""
    size, digest = 0, hashlib.sha256()
    with files_at(path).GFile(path, "rb") as handle:
        while part := handle.read(_PART):
            size += len(part)
            digest.update(part)
    return [size, digest.hexdigest()]


def _in_use(place: str) -> MlmError:
    return MlmError(
        f"{place} is in use: another process trains this very run. Wait for it or stop it; two "
        "writers would spoil each other's state"
    )


@contextmanager
def file_lock(directory: str) -> Iterator[None]:
    """An exclusive lock on a local file, freed with the process; MlmError if another has it."""
    with open(f"{directory}/lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _in_use(directory) from error
        yield


class Lease:
    """A lease file in a bucket, renewed by a thread, and taken over if it rests: no two clocks are
    compared. MlmError if another process renews it. It cannot rule out two processes that start
    within milliseconds."""

    def __init__(self, directory: str, renewal: float = RENEWAL, rest: float = REST):
        self._directory, self._path = directory, f"{directory}/lease.json"
        self._owner, self._count, self.lost = uuid.uuid4().hex, 0, False
        seen, end = self._read(), time.monotonic() + rest
        while seen is not None and time.monotonic() < end:
            time.sleep(min(1.0, rest / 4))
            if (now := self._read()) not in (None, seen):
                raise _in_use(directory)
            seen = now
        self._write()
        # Another process that started at the same time has written its own by then, and what
        # TensorFlow remembers of the file for five seconds is forgotten.
        time.sleep(min(6.0, renewal))
        if self._owner not in (self._read() or ""):
            raise _in_use(directory)
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._renew, args=[renewal], daemon=True)
        self._thread.start()

    def _read(self) -> str | None:
        try:
            return read_bytes(self._path).decode()
        except errors_at(self._path) as error:
            if type(error).__name__ in ("NotFoundError", "FileNotFoundError"):
                return None
            raise

    def _write(self) -> None:
        self._count += 1
        content = {"owner": self._owner, "renewed": self._count}
        write_bytes(self._path, json.dumps(content).encode())

    def _renew(self, renewal: float) -> None:
        while not self._released.wait(renewal):
            try:
                if self._owner not in (self._read() or ""):
                    # This process stood still for so long that another took the lease over.
                    self.lost = True
                    return
                self._write()
            except errors_at(self._path) as error:
                print(f"Lease {self._path} could not be renewed: {error}", file=sys.stderr)

    def check(self) -> None:
        """Raise MlmError if another process has taken the lease over."""
        if self.lost:
            raise _in_use(self._directory)

    def release(self) -> None:
        """Stop renewing, and remove the lease unless it is another's by now."""
        self._released.set()
        self._thread.join()
        if not self.lost:
            files_at(self._path).remove(self._path)

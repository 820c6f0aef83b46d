"""One writer at a time in a state directory, on a local disk (freed with its process) or in a
bucket, where a lease file is renewed while its owner lives, and taken over if it rests: no two
clocks are compared. It cannot rule out two processes that start within milliseconds."""

import fcntl
import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from mlm.foundations.errors import MlmError
from mlm.training.state_files import errors_at, files_at, read_bytes, write_bytes

#: Seconds between two renewals of a lease, and how long one must rest to be up for taking.
RENEWAL, REST = 20.0, 70.0


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
    """A lease file in a bucket, renewed by a thread until released or the process ends."""

    def __init__(self, directory: str, renewal: float = RENEWAL, rest: float = REST):
        self._path, self._renewal = f"{directory}/lease.json", renewal
        self._owner, self._count = uuid.uuid4().hex, 0
        self._wait_for_rest(directory, rest)
        self._write()
        # Another process that started at the same time has written its own by then, and what
        # TensorFlow remembers of the file for five seconds is forgotten.
        time.sleep(min(6.0, renewal))
        if self._owner not in (self._read() or ""):
            raise _in_use(directory)
        self.lost = False
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def _wait_for_rest(self, directory: str, rest: float) -> None:
        """Return once the lease is gone or unchanged for `rest` seconds; raise if it changes."""
        seen = self._read()
        end = time.monotonic() + rest
        while seen is not None and time.monotonic() < end:
            time.sleep(min(1.0, rest / 4))
            now = self._read()
            if now is not None and now != seen:
                raise _in_use(directory)
            seen = now

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

    def _renew(self) -> None:
        while not self._released.wait(self._renewal):
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
            raise _in_use(self._path.rpartition("/")[0])

    def release(self) -> None:
        """Stop renewing, and remove the lease unless it is another's by now."""
        self._released.set()
        self._thread.join()
        if not self.lost:
            files_at(self._path).remove(self._path)

"""One writer of states at a time: a lock on a file here, a lease on one in a bucket."""

import fcntl
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import show
from mlm.training.gfile import read_bytes, remove_file, write_bytes

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
        # Another process that started at the same time has written its own by then.
        time.sleep(min(6.0, renewal))
        if self._owner not in (self._read() or ""):
            raise _in_use(directory)
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._renew, args=[renewal], daemon=True)
        self._thread.start()

    def _read(self) -> str | None:
        try:
            return read_bytes(self._path).decode()
        except FileNotFoundError:
            return None

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
            except OSError as error:
                show(f"Warning: lease {self._path} could not be renewed: {error}")

    def check(self) -> None:
        """Raise MlmError if another process has taken the lease over."""
        if self.lost:
            raise _in_use(self._directory)

    def release(self) -> None:
        """Stop renewing, and remove the lease unless it is another's by now."""
        self._released.set()
        self._thread.join()
        if not self.lost:
            remove_file(self._path)

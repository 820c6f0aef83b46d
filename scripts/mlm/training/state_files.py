"""Files of saved states, here or under gs://, and the lock of who writes them here."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, GcsFileSystem, LocalFileSystem

from mlm.foundations.errors import MlmError

#: Bytes read at a time to take a file's digest.
_PART = 1 << 24
#: How long a failing request is repeated.
_RETRIES = timedelta(minutes=2)


def is_local(path: str) -> bool:
    return "://" not in path


@cache
def cloud_storage() -> FileSystem:
    """Google Cloud Storage, or the server that the variable of Google's clients names."""
    if not (emulator := os.environ.get("STORAGE_EMULATOR_HOST")):
        return GcsFileSystem(retry_time_limit=_RETRIES)
    scheme, _, host = emulator.rpartition("://")
    how = {"scheme": scheme or "http", "endpoint_override": host, "anonymous": True}
    return GcsFileSystem(retry_time_limit=_RETRIES, **how)


def _located(path: str) -> tuple[FileSystem, str]:
    """The file system of `path`, and the path there."""
    return (LocalFileSystem() if is_local(path) else cloud_storage()), path.removeprefix("gs://")


def names_in(directory: str) -> list[str]:
    """The sorted names in `directory`, none if it is missing."""
    _, base = _located(directory)
    paths = (info.path.removeprefix(f"{base}/") for info in _infos_below(directory))
    return sorted({path.partition("/")[0] for path in paths})


def bytes_below(directory: str) -> int:
    """The size of all files below `directory`."""
    return sum(info.size for info in _infos_below(directory) if info.is_file)


def _infos_below(directory: str) -> list[FileInfo]:
    system, path = _located(directory)
    if system.get_file_info(path).type != FileType.Directory:
        return []
    # A bucket lists its files alone.
    return system.get_file_info(FileSelector(path, recursive=True))


def make_directory(path: str) -> None:
    """Make the directory `path` if it is missing; a bucket needs none."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)


def remove_directory(path: str) -> None:
    """Remove the directory `path`, if there is one, with all files below it."""
    if is_local(path):
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        return
    for info in _infos_below(path):
        cloud_storage().delete_file(info.path)


def read_bytes(path: str) -> bytes:
    system, base = _located(path)
    with system.open_input_stream(base) as file:
        return file.read()


def write_bytes(path: str, content: bytes) -> None:
    system, base = _located(path)
    with system.open_output_stream(base) as file:
        file.write(content)


def size_and_digest(path: str) -> list:
    """Size in bytes and sha256; FileNotFoundError if there is no such file."""
    system, base = _located(path)
    size, digest = 0, hashlib.sha256()
    with system.open_input_stream(base) as file:
        while part := file.read(_PART):
            size += len(part)
            digest.update(part)
    return [size, digest.hexdigest()]


@contextmanager
def file_lock(directory: str) -> Iterator[None]:
    """An exclusive lock on a local file, freed with the process; MlmError if another has it."""
    with open(f"{directory}/lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MlmError(
                f"{directory} is in use: another process trains this very run. Wait for it or stop "
                "it; two writers would remove each other's states"
            ) from error
        yield

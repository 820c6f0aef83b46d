"""Files of saved states, in a directory here or under gs:// in Google Cloud Storage."""

import hashlib
import os
from datetime import timedelta
from functools import cache

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, GcsFileSystem, LocalFileSystem

#: Bytes read at a time to take a file's digest.
_PART = 1 << 24
#: How long a request that fails in passing is repeated.
_RETRIES = timedelta(minutes=2)


@cache
def cloud_storage() -> FileSystem:
    """Google Cloud Storage, or the server that the variable of Google's own clients names."""
    if emulator := os.environ.get("STORAGE_EMULATOR_HOST"):
        scheme, _, host = emulator.rpartition("://")
        return GcsFileSystem(
            anonymous=True,
            scheme=scheme or "http",
            endpoint_override=host,
            retry_time_limit=_RETRIES,
        )
    return GcsFileSystem(retry_time_limit=_RETRIES)


def _located(path: str) -> tuple[FileSystem, str]:
    """The file system of `path`, and the path there."""
    if "://" not in path:
        return LocalFileSystem(), path
    return cloud_storage(), path.removeprefix("gs://")


def exists(path: str) -> bool:
    system, place = _located(path)
    return system.get_file_info(place).type != FileType.NotFound


def names_in(directory: str) -> list[str]:
    """The names of what is in `directory`, sorted; none if there is no such directory."""
    _, place = _located(directory)
    paths = (info.path.removeprefix(f"{place}/") for info in _infos_below(directory))
    return sorted({path.partition("/")[0] for path in paths})


def bytes_below(directory: str) -> int:
    """The size of all files below `directory`."""
    return sum(info.size for info in _infos_below(directory) if info.is_file)


def _infos_below(directory: str) -> list[FileInfo]:
    system, place = _located(directory)
    if system.get_file_info(place).type != FileType.Directory:
        return []
    # A bucket lists its files alone.
    return system.get_file_info(FileSelector(place, recursive=True))


def make_directory(path: str) -> None:
    """Make the directory `path` if it is missing; a bucket needs none."""
    system, place = _located(path)
    if isinstance(system, LocalFileSystem):
        os.makedirs(place, exist_ok=True)


def remove_directory(path: str) -> None:
    """Remove the directory `path` with all files below it."""
    system, place = _located(path)
    if isinstance(system, LocalFileSystem):
        system.delete_dir(place)
        return
    for info in _infos_below(path):
        system.delete_file(info.path)


def remove_file(path: str) -> None:
    system, place = _located(path)
    system.delete_file(place)


def read_bytes(path: str) -> bytes:
    system, place = _located(path)
    with system.open_input_stream(place) as file:
        return file.read()


def write_bytes(path: str, content: bytes) -> None:
    system, place = _located(path)
    with system.open_output_stream(place) as file:
        file.write(content)


def size_and_digest(path: str) -> list:
    """Size in bytes and sha256, taken a part at a time."""
    system, place = _located(path)
    size, digest = 0, hashlib.sha256()
    with system.open_input_stream(place) as file:
        while part := file.read(_PART):
            size += len(part)
            digest.update(part)
    return [size, digest.hexdigest()]

"""`tf.io.gfile` for states in a bucket, and the same functions for a directory here, for which
TensorFlow is not imported."""

import hashlib
import os
import shutil
import sys
from typing import Any

#: Bytes read at a time to take a file's digest.
_PART = 1 << 24


class _Local:
    """What `tf.io.gfile` offers, for this machine's own files."""

    exists, isdir, listdir, remove = os.path.exists, os.path.isdir, os.listdir, os.remove
    GFile, rmtree, walk = open, shutil.rmtree, os.walk

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


def bytes_below(path: str) -> int:
    """The size of all files below the directory `path`."""
    files = files_at(path)
    paths = [f"{place}/{name}" for place, _, names in files.walk(path) for name in names]
    return sum(os.path.getsize(p) if files is _Local else files.stat(p).length for p in paths)

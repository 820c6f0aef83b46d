"""Files in a directory here or under a gs:// prefix, by one interface.

gs:// goes through google-cloud-storage where it is installed, else through TensorFlow where
it can read gs://. Neither is imported for a local path.
"""

import glob
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlm.foundations.errors import MlmError

_SCHEME = "gs://"


@dataclass(frozen=True)
class _Store:
    """What is asked of object storage; every path is a full gs:// path."""

    list: Callable[[str], list[str]]
    size: Callable[[str], int | None]
    download: Callable[[str, str], None]
    read: Callable[[str, int, int | None], bytes]


def is_remote(path: str) -> bool:
    """Whether `path` lies in object storage."""
    return path.startswith(_SCHEME)


def list_files(place: str) -> list[str]:
    """The paths of all files right in directory `place`, or starting with the prefix `place`.

    Sorted. Subdirectories are not entered. Raises MlmError where gs:// cannot be read.
    """
    if is_remote(place):
        with _in_words("list", place):
            found = _store().list(place)
            if not found and not place.endswith("/"):
                found = _store().list(place + "/")
        return sorted(found)
    pattern = (
        os.path.join(glob.escape(place), "*")
        if Path(place).is_dir()
        else (glob.escape(place) + "*")
    )
    return sorted(p for p in glob.glob(pattern) if Path(p).is_file())


def file_size(path: str) -> int | None:
    """The bytes of a file, or None where there is none."""
    if is_remote(path):
        with _in_words("read", path):
            return _store().size(path)
    return Path(path).stat().st_size if Path(path).is_file() else None


def read_part(path: str, start: int, end: int | None = None) -> bytes:
    """The bytes of a file from `start` up to `end`, or to its end."""
    if is_remote(path):
        with _in_words("read", path):
            return _store().read(path, start, end)
    with open(path, "rb") as stream:
        stream.seek(start)
        return stream.read(-1 if end is None else end - start)


@contextmanager
def local_copy(path: str) -> Iterator[Path]:
    """A local file with the content of `path`: itself, or a download that is then removed."""
    if not is_remote(path):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="shard-") as directory:
        copy = Path(directory) / path.rsplit("/", 1)[1]
        with _in_words("download", path):
            _store().download(path, str(copy))
        yield copy


@contextmanager
def _in_words(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except MlmError:
        raise
    except Exception as error:  # The libraries share no base class for what can go wrong.
        raise MlmError(
            f"{path}: cannot {action} it ({type(error).__name__}: {error}). Is the name right, "
            "and may this machine's credentials read it (gcloud auth application-default login)?"
        ) from error


@cache
def _store() -> _Store:
    try:
        from google.cloud import storage
    except ImportError:
        return _tensorflow_store()
    return _google_store(storage)


def _parts(path: str) -> tuple[str, str]:
    """The bucket and the object's name."""
    bucket, _, name = path.removeprefix(_SCHEME).partition("/")
    return bucket, name


def _google_store(storage) -> _Store:
    client = storage.Client()

    def blob_of(path: str):
        bucket, name = _parts(path)
        return client.bucket(bucket).get_blob(name)

    def listing(prefix: str) -> list[str]:
        bucket, name = _parts(prefix)
        blobs = client.list_blobs(bucket, prefix=name, delimiter="/")
        return [f"{_SCHEME}{bucket}/{b.name}" for b in blobs if not b.name.endswith("/")]

    def size(path: str) -> int | None:
        blob = blob_of(path)
        return None if blob is None else blob.size

    def download(path: str, target: str) -> None:
        blob = blob_of(path)
        if blob is None:
            raise MlmError(f"{path}: is missing")
        blob.download_to_filename(target)

    def read(path: str, start: int, end: int | None) -> bytes:
        bucket, name = _parts(path)
        # Its end is the last byte that is read.
        return (
            client.bucket(bucket)
            .blob(name)
            .download_as_bytes(start=start, end=None if end is None else end - 1)
        )

    return _Store(listing, size, download, read)


def _tensorflow_store() -> _Store:
    try:
        import tensorflow as tf
    except ImportError:
        tf = None
    if tf is None or "gs" not in tf.io.gfile.get_registered_schemes():
        raise MlmError(
            "gs:// paths need a package that can read them, and none is installed: "
            "google-cloud-storage, or tensorflow-io-gcs-filesystem beside TensorFlow. Install "
            "one, or copy the files to a directory and name that."
        )

    def size(path: str) -> int | None:
        return tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None

    def listing(prefix: str) -> list[str]:
        return [p for p in tf.io.gfile.glob(prefix + "*") if not tf.io.gfile.isdir(p)]

    def read(path: str, start: int, end: int | None) -> bytes:
        with tf.io.gfile.GFile(path, "rb") as stream:
            stream.seek(start)
            return stream.read(-1 if end is None else end - start)

    return _Store(listing, size, lambda path, target: tf.io.gfile.copy(path, target), read)

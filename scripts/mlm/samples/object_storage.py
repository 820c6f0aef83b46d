"""Files in a directory here or, by google-cloud-storage, under a gs:// prefix."""

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mlm.foundations.errors import MlmError

_SCHEME = "gs://"


def is_remote(path: str) -> bool:
    """Whether `path` is in object storage."""
    return path.startswith(_SCHEME)


def list_files(place: str) -> list[str]:
    """The sorted paths of all files in directory `place`, or with that prefix."""
    if is_remote(place):
        with _in_words("list", place):
            return sorted(_objects(place) or _objects(place.rstrip("/") + "/"))
    escaped = glob.escape(place)
    pattern = os.path.join(escaped, "*") if Path(place).is_dir() else escaped + "*"
    return sorted(p for p in glob.glob(pattern) if Path(p).is_file())


def file_size(path: str) -> int | None:
    """The bytes of a file, or None if there is none."""
    if is_remote(path):
        with _in_words("read", path):
            blob = _blob(path)
            return None if blob is None else blob.size
    return Path(path).stat().st_size if Path(path).is_file() else None


def read_range(path: str, start: int, end: int | None = None) -> bytes:
    """The bytes of a file from `start` up to `end`, or to its end."""
    if is_remote(path):
        with _in_words("read", path):
            bucket, name = _bucket_and_name(path)
            # Its `end` is the last byte that is read.
            last = None if end is None else end - 1
            return bucket.blob(name).download_as_bytes(start=start, end=last)
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
            blob = _blob(path)
            if blob is None:
                raise MlmError(f"{path}: is missing")
            blob.download_to_filename(str(copy))
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
def _client() -> Any:
    try:
        from google.cloud import storage
    except ImportError:
        raise MlmError(
            "gs:// paths need the package google-cloud-storage, which is not installed. Install "
            "it, or copy the files to a directory and name that."
        ) from None
    return storage.Client()


def _bucket_and_name(path: str) -> tuple[Any, str]:
    bucket, _, name = path.removeprefix(_SCHEME).partition("/")
    return _client().bucket(bucket), name


def _blob(path: str) -> Any:
    bucket, name = _bucket_and_name(path)
    return bucket.get_blob(name)


def _objects(prefix: str) -> list[str]:
    bucket, name = _bucket_and_name(prefix)
    blobs = _client().list_blobs(bucket, prefix=name, delimiter="/")
    place = prefix.removesuffix(name)
    return [place + blob.name for blob in blobs if not blob.name.endswith("/")]

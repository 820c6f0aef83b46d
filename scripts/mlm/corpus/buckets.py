"""Records on disk by buckets, so that those of a bucket are read together out of many files."""

import os
from pathlib import Path

import numpy as np

#: Records that are sorted together, and how many of a bucket at least.
_RUN, _OF_BUCKET = 1 << 17, 64


class BucketWriter:
    """Writes records of the type `kind` to `path`, in runs that are each sorted by bucket."""

    def __init__(self, path: Path, kind: np.dtype, buckets: int):
        self._file, self._kind, self._buckets = open(path, "wb"), kind, buckets
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._size = 0

    def add(self, records: np.ndarray, buckets: np.ndarray) -> None:
        """Append each of `records` to its one of `buckets`."""
        self._waiting.append((records, buckets.astype(np.int64)))
        self._size += len(records)
        if self._size >= max(_RUN, _OF_BUCKET * self._buckets):
            self._flush()

    def _flush(self) -> None:
        if self._size:
            records, buckets = map(np.concatenate, zip(*self._waiting, strict=True))
            np.bincount(buckets, minlength=self._buckets).tofile(self._file)
            records[np.argsort(buckets, kind="stable")].tofile(self._file)
        self._waiting, self._size = [], 0

    def close(self) -> None:
        """Write what is left."""
        with self._file:
            self._flush()


class Buckets:
    """The records that a `BucketWriter` wrote."""

    def __init__(self, path: Path, kind: np.dtype, buckets: int):
        self._path, self._kind = path, kind
        #: The position of each run in the file, and the end of each bucket in it.
        self._runs: list[tuple[int, np.ndarray]] = []
        with open(path, "rb") as file:
            while len(counts := np.fromfile(file, np.int64, buckets)):
                ends = np.concatenate([[0], np.cumsum(counts)])
                self._runs.append((file.tell(), ends))
                file.seek(int(ends[-1]) * kind.itemsize, os.SEEK_CUR)

    def read(self, bucket: int) -> np.ndarray:
        """Return the records of `bucket` in order."""
        parts = [np.empty(0, self._kind)]
        for position, ends in self._runs:
            start, count = ends[bucket], ends[bucket + 1] - ends[bucket]
            # Of none, NumPy would read all.
            if count:
                offset = position + start * self._kind.itemsize
                parts.append(np.fromfile(self._path, self._kind, count, offset=offset))
        return np.concatenate(parts)

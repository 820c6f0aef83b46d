"""Records on disk by buckets, so that those of a bucket are read together out of many files."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: Records that are sorted together, and how many of a bucket at least.
_RUN, _OF_BUCKET = 1 << 17, 64
_COUNT = np.dtype("<u4")


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
            # Without the type, NumPy turns the bytes of numbers to the order of this machine.
            parts, numbers = zip(*self._waiting, strict=True)
            records, buckets = np.concatenate(parts, dtype=self._kind), np.concatenate(numbers)
            counts = np.bincount(buckets, minlength=self._buckets)
            self._file.write(counts.astype(_COUNT).tobytes())
            self._file.write(records[np.argsort(buckets, kind="stable")].tobytes())
        self._waiting, self._size = [], 0

    def close(self) -> None:
        """Write what is left."""
        with self._file:
            self._flush()


class Buckets:
    """The records that a `BucketWriter` wrote, and the `counts` of each bucket, int64."""

    def __init__(self, path: Path, kind: np.dtype, buckets: int):
        self._path, self._kind = path, kind
        self._runs = list(self._runs_of(buckets))
        self.counts = sum((np.diff(ends) for _, ends in self._runs), np.zeros(buckets, np.int64))

    def _runs_of(self, buckets: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the position of each run in the file, and the end of each bucket in it."""
        with open(self._path, "rb") as file:
            while len(counts := np.fromfile(file, _COUNT, buckets)):
                ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
                yield file.tell(), ends
                file.seek(int(ends[-1]) * self._kind.itemsize, os.SEEK_CUR)

    def read(self, first: int, stop: int) -> np.ndarray:
        """Return the records of the buckets from `first` to before `stop`; those of one bucket in
        order."""
        parts = [np.empty(0, self._kind)]
        for position, ends in self._runs:
            begin, end = ends[[first, stop]].tolist()
            # Of none, NumPy would read all.
            if begin < end:
                offset = position + begin * self._kind.itemsize
                parts.append(np.fromfile(self._path, self._kind, end - begin, offset=offset))
        return np.concatenate(parts, dtype=self._kind)

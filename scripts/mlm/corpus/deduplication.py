"""Exact duplicates within a split and leaks between splits, found outside of memory.

Every document leaves a 128-bit digest. The digests go to files by their first byte, and one
such bucket at a time is sorted in memory: a corpus of a billion documents has buckets of
about 4 million records, 94 MB. The verdict is one byte a document in a file.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: Later splits lose a document that an earlier one has.
PRECEDENCE = ("test", "validation", "train")
KEPT, DUPLICATE, LEAKED = 0, 1, 2

_RECORD = np.dtype([("high", ">u8"), ("low", ">u8"), ("split", "u1"), ("number", ">u8")])
_BUCKETS = 256
_BUFFER = 1 << 16


def digest(document: bytes) -> bytes:
    """The 128-bit BLAKE2b digest of a document's UTF-8 bytes (RFC 7693).

    Two different documents of a corpus of 10^9 share one with probability 10^-21.
    """
    return hashlib.blake2b(document, digest_size=16).digest()


class DigestBuckets:
    """Digests of all documents on disk, and from them what to leave out."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._directory.mkdir(parents=True)
        self._buffer = np.empty(_BUFFER, _RECORD)
        self._filled = 0
        self.documents = dict.fromkeys(PRECEDENCE, 0)

    def add(self, split: str, document: bytes) -> None:
        """Note the next document of `split`; its number is the count of those before it."""
        value = digest(document)
        self._buffer[self._filled] = (
            int.from_bytes(value[:8], "big"),
            int.from_bytes(value[8:], "big"),
            PRECEDENCE.index(split),
            self.documents[split],
        )
        self.documents[split] += 1
        self._filled += 1
        if self._filled == _BUFFER:
            self._flush()

    def _flush(self) -> None:
        records = self._buffer[: self._filled]
        buckets = (records["high"] >> np.uint64(56)).astype(np.uint8)
        order = np.argsort(buckets, kind="stable")
        ends = np.cumsum(np.bincount(buckets, minlength=_BUCKETS))
        for bucket, part in enumerate(np.split(records[order], ends[:-1])):
            if len(part):
                with open(self._directory / f"{bucket:02x}", "ab") as handle:
                    handle.write(part.tobytes())
        self._filled = 0

    def verdicts(self, deduplicate: bool, remove_leakage: bool) -> dict[str, np.ndarray]:
        """By split, one byte a document in its order: KEPT, DUPLICATE or LEAKED.

        The first of equal documents of a split is kept, later ones are duplicates. A document
        that also stands in a split of higher precedence is leaked. The arrays are mapped
        files: they need disk, not memory. To be called once, after the last `add`.
        """
        self._flush()
        result = {}
        for split, count in self.documents.items():
            path = self._directory / f"verdicts-{split}"
            path.write_bytes(b"")
            with open(path, "r+b") as handle:
                # Really allocated: a write into a mapped hole of a full disk kills the process.
                if count:
                    os.posix_fallocate(handle.fileno(), 0, count)
            result[split] = np.memmap(path, np.uint8, "r+") if count else np.empty(0, np.uint8)
        for bucket in self._sorted_buckets():
            for split, numbers, verdict in _removed(bucket, deduplicate, remove_leakage):
                result[split][numbers] = verdict
        return result

    def _sorted_buckets(self) -> Iterator[np.ndarray]:
        for bucket in range(_BUCKETS):
            path = self._directory / f"{bucket:02x}"
            if path.exists():
                records = np.fromfile(path, _RECORD)
                keys = [records[key].astype("u8") for key in ("number", "split", "low", "high")]
                yield records[np.lexsort(keys)]
                path.unlink()


def _removed(
    records: np.ndarray, deduplicate: bool, remove_leakage: bool
) -> Iterator[tuple[str, np.ndarray, int]]:
    """Split, numbers and verdict of the documents to leave out, of sorted `records`."""
    same_text = (records["high"][1:] == records["high"][:-1]) & (
        records["low"][1:] == records["low"][:-1]
    )
    first_of_text = np.concatenate(([True], ~same_text))
    split = records["split"]
    verdict = np.full(len(records), KEPT, np.uint8)
    if remove_leakage:
        starts = np.flatnonzero(first_of_text)
        highest = np.repeat(split[starts], np.diff(np.append(starts, len(records))))
        verdict[split != highest] = LEAKED
    if deduplicate:
        verdict[1:][same_text & (split[1:] == split[:-1])] = DUPLICATE
    for index, name in enumerate(PRECEDENCE):
        for reason in (DUPLICATE, LEAKED):
            numbers = records["number"][(split == index) & (verdict == reason)]
            yield name, numbers.astype(np.int64), reason

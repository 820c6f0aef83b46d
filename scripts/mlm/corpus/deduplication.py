"""Exact duplicates within a split and leaks between splits, found outside of memory.

Every document leaves a 128-bit digest. The digests go to disk by their first byte, and one
such bucket at a time, of all parts of the source, is sorted in memory: a corpus of a billion
documents has buckets of about 4 million records, 130 MB. What is to be left out is a list of
numbers in a file.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from mlm.foundations.errors import MlmError

#: Later splits lose a document that an earlier one has.
PRECEDENCE = ("test", "validation", "train")
KEPT, DUPLICATE, LEAKED, CONTAMINATED, NEAR_DUPLICATE, NEAR_LEAKED = range(6)
#: The number of values of a digest's first byte.
BUCKETS = 256

_RECORD = np.dtype(
    [
        *(("high", ">u8"), ("low", ">u8"), ("length", ">u4"), ("check", ">u4")),
        *(("split", "u1"), ("number", ">u8")),
    ]
)
#: Digests that are sorted into buckets together.
_BUFFER = 1 << 18
_NUMBER = np.dtype("<i8")
#: What each verdict but KEPT is called where it is counted, in their order.
REASONS = ("duplicate", "leaked", "decontamination", "near_duplicate", "near_leaked")


def digest(document: bytes) -> bytes:
    """The 128-bit BLAKE2b digest of a document's UTF-8 bytes (RFC 7693).

    Two different documents of a corpus of 10^9 share one with probability 10^-21.
    """
    return hashlib.blake2b(document, digest_size=16).digest()


class DigestBuckets:
    """Digests of the documents of a part, gathered on disk below `directory`."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._directory.mkdir(parents=True)
        self._waiting, self._on_disk = [np.empty(0, _RECORD)], False
        self._documents = dict.fromkeys(PRECEDENCE, 0)

    def add(self, split: str, documents: Sequence[bytes]) -> None:
        """Note the next documents of `split`; their numbers follow those of the ones before."""
        records = np.empty(len(documents), _RECORD)
        digests = np.frombuffer(b"".join(map(digest, documents)), ">u8").reshape(-1, 2)
        records["high"], records["low"] = digests.T
        # What tells two documents apart that share a digest.
        records["length"] = np.fromiter(map(len, documents), np.uint32)
        records["check"] = np.fromiter(map(zlib.crc32, documents), np.uint32)
        records["split"] = PRECEDENCE.index(split)
        records["number"] = np.arange(len(documents)) + self._documents[split]
        self._documents[split] += len(documents)
        self._waiting.append(records)
        if sum(map(len, self._waiting)) >= _BUFFER:
            self._flush()

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """What waits, bucket after bucket, and how many each bucket has."""
        # Without the type, NumPy turns the bytes of numbers to the order of this machine.
        records = np.concatenate(self._waiting, dtype=_RECORD)
        self._waiting = [np.empty(0, _RECORD)]
        buckets = (records["high"] >> np.uint64(56)).astype(np.uint8)
        counts = np.bincount(buckets, minlength=BUCKETS)
        return records[np.argsort(buckets, kind="stable")], counts

    def _flush(self) -> None:
        records, counts = self._sorted()
        for bucket, part in enumerate(np.split(records, np.cumsum(counts)[:-1])):
            if len(part):
                with open(self._directory / f"{bucket:02x}", "ab") as handle:
                    handle.write(part.tobytes())
        self._on_disk = True

    def write(self, path: Path) -> tuple[int, ...]:
        """Write all of them to `path`, bucket after bucket; how many each bucket has.

        To be called once, after the last `add`.
        """
        if not self._on_disk:
            records, counts = self._sorted()
            path.write_bytes(records.tobytes())
            return tuple(counts.tolist())
        self._flush()
        counts = []
        with open(path, "wb") as together:
            for bucket in range(BUCKETS):
                place, count = self._directory / f"{bucket:02x}", 0
                if place.exists():
                    content = place.read_bytes()
                    together.write(content)
                    count = len(content) // _RECORD.itemsize
                    place.unlink()
                counts.append(count)
        return tuple(counts)


@dataclass(frozen=True)
class Digests:
    """The digests of a part: its file, and how many each bucket has."""

    path: Path
    counts: Sequence[int]

    def bucket(self, number: int) -> np.ndarray:
        """The records of one bucket, in the order of the documents."""
        start = sum(self.counts[:number]) * _RECORD.itemsize
        return np.fromfile(self.path, _RECORD, self.counts[number], offset=start)


def write_removed(
    parts: Sequence[Digests],
    buckets: range,
    path: Path,
    *,
    deduplicate: bool,
    remove_leakage: bool,
) -> None:
    """Write to `path` which documents of `parts`, in `buckets`, are left out; `Removed` reads it.

    The first of equal documents of a split is kept, in the order of the parts, later ones are
    duplicates. A document that also stands in a split of higher precedence is leaked. Raises
    MlmError for different documents of the same digest.
    """
    with open(path, "wb") as file:
        for bucket in buckets if deduplicate or remove_leakage else ():
            found = [part.bucket(bucket) for part in parts]
            part = np.repeat(np.arange(len(parts)), [len(records) for records in found])
            records = np.concatenate(found)
            if not len(records):
                continue
            # Stable: of equal documents of a split, the first stays the first.
            keys = [records[key].astype("u8") for key in ("split", "low", "high")]
            order = np.lexsort(keys)
            records, part = records[order], part[order]
            verdict = _verdicts(records, part, deduplicate, remove_leakage)
            left = np.flatnonzero(verdict)
            of_left = (records[name][left] for name in ("split", "number"))
            write_block(file, part[left], *of_left, verdict[left])


def write_block(
    file: BinaryIO,
    part: np.ndarray,
    split: np.ndarray,
    number: np.ndarray,
    verdict: np.ndarray,
) -> None:
    """Append to `file` documents that are left out; `Removed` reads it.

    Each has its part, its split (its place in `PRECEDENCE`), its number there, and why.
    """
    key = (part * len(PRECEDENCE) + split) * len(REASONS) + verdict - 1
    numbers = number.astype(_NUMBER)
    # From the first key that occurs to the last one: of a single part, only a few.
    first = int(key.min()) if len(key) else 0
    counts = np.bincount(key - first)
    file.write(np.array([first, len(counts), *counts], _NUMBER).tobytes())
    file.write(numbers[np.lexsort([numbers, key])].tobytes())


def _verdicts(
    records: np.ndarray, part: np.ndarray, deduplicate: bool, remove_leakage: bool
) -> np.ndarray:
    """KEPT, DUPLICATE or LEAKED for each of `records`, which are sorted by digest and split."""
    same_text = (records["high"][1:] == records["high"][:-1]) & (
        records["low"][1:] == records["low"][:-1]
    )
    other = (records["length"][1:] != records["length"][:-1]) | (
        records["check"][1:] != records["check"][:-1]
    )
    if (same_text & other).any():
        raise _same_digest(records, part, int(np.argmax(same_text & other)))
    first_of_text = np.concatenate(([True], ~same_text))
    split = records["split"]
    verdict = np.full(len(records), KEPT, np.uint8)
    if remove_leakage:
        starts = np.flatnonzero(first_of_text)
        highest = np.repeat(split[starts], np.diff(np.append(starts, len(records))))
        verdict[split != highest] = LEAKED
    if deduplicate:
        verdict[1:][same_text & (split[1:] == split[:-1])] = DUPLICATE
    return verdict


def _same_digest(records: np.ndarray, part: np.ndarray, place: int) -> MlmError:
    both = " and ".join(
        f"document {records['number'][i]:,} of {PRECEDENCE[records['split'][i]]} in part {part[i]}"
        f" ({records['length'][i]:,} bytes)"
        for i in (place, place + 1)
    )
    return MlmError(
        f"Two different documents have the same 128-bit digest: {both}, counted from 0 after the "
        "filters of single documents. One of them would be taken for a duplicate of the other. "
        "Change one by a character, or set corpus.filters.deduplicate and "
        "corpus.filters.remove_leakage to false"
    )


def on_disk(place: Path, dtype: DTypeLike, size: int) -> np.ndarray:
    """`size` zeros, mapped from the new file `place`: they need disk, not memory."""
    if not size:
        return np.empty(0, dtype)
    place.write_bytes(b"")
    with open(place, "r+b") as handle:
        # Really allocated: a write into a mapped hole of a full disk kills the process.
        os.posix_fallocate(handle.fileno(), 0, size * np.dtype(dtype).itemsize)
    return np.memmap(place, dtype, "r+")


class Removed:
    """The documents to leave out, of `parts` parts, as `write_removed` wrote them to `paths`."""

    def __init__(self, paths: Sequence[Path], parts: int):
        self._shape = parts, len(PRECEDENCE), len(REASONS)
        # Blocks, each with its numbers: where they begin, and how many each part, split and reason
        # has, from the first that has any.
        self._blocks = [block for path in paths for block in self._blocks_of(path)]

    def _blocks_of(self, path: Path) -> Iterator[tuple[Path, int, int, np.ndarray]]:
        with open(path, "rb") as file:
            while len(head := np.fromfile(file, _NUMBER, 2)):
                first, size = head.tolist()
                counts = np.fromfile(file, _NUMBER, size)
                yield path, file.tell(), first, np.concatenate([[0], np.cumsum(counts)])
                file.seek(int(counts.sum()) * _NUMBER.itemsize, os.SEEK_CUR)

    def counts(self, split: str) -> np.ndarray:
        """How many documents of `split` are left out, [parts, reasons]."""
        return self._counts[:, PRECEDENCE.index(split)]

    @cached_property
    def _counts(self) -> np.ndarray:
        total = np.zeros(int(np.prod(self._shape)), np.int64)
        for _, _, first, ends in self._blocks:
            total[first : first + len(ends) - 1] += np.diff(ends)
        return total.reshape(self._shape)

    def verdicts(self, part: int, split: str, documents: int, place: Path) -> np.ndarray:
        """One byte for each of the `documents` that `part` has of `split`: KEPT or why not.

        It is mapped from the new file `place`: it needs disk, not memory.
        """
        verdicts = on_disk(place, np.uint8, documents)
        own = int(np.ravel_multi_index((part, PRECEDENCE.index(split), 0), self._shape))
        for path, start, first, ends in self._blocks:
            for reason in range(KEPT + 1, len(REASONS) + 1):
                key = own + reason - 1 - first
                before, after = ends[key : key + 2].tolist() if 0 <= key < len(ends) - 1 else (0, 0)
                # Of none, NumPy would read all.
                if before < after:
                    offset = start + before * _NUMBER.itemsize
                    numbers = np.fromfile(path, _NUMBER, after - before, offset=offset)
                    verdicts[numbers] = reason
        return verdicts

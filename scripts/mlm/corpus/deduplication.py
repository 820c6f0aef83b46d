"""Exact duplicates within a split and leaks between splits, by 128-bit digests on disk. Of these,
one bucket of 256 at a time is sorted in memory: of a billion documents, 100 MB."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from mlm.corpus.artefacts import PassRecord
from mlm.corpus.buckets import Buckets, BucketWriter
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.atomic import replacing

#: Later splits lose a document that an earlier one has.
PRECEDENCE = ("test", "validation", "train")
KEPT, DUPLICATE, LEAKED, CONTAMINATED, NEAR_DUPLICATE, NEAR_LEAKED = range(6)
#: The name of each verdict but KEPT where documents are counted.
REASONS = ("duplicate", "leaked", "decontamination", "near_duplicate", "near_leaked")
#: The number of values of a digest's first byte.
_BUCKETS = 256
_DIGEST = np.dtype([("high", ">u8"), ("low", ">u8"), ("split", "u1"), ("number", ">u8")])
_NUMBER = np.dtype("<i8")


@contextmanager
def digesting(path: Path) -> Iterator[Callable[[str, Sequence[bytes]], None]]:
    """Context manager: yields a function that writes to `path` the BLAKE2b digests (RFC 7693) of
    the next documents of a split."""
    documents = dict.fromkeys(PRECEDENCE, 0)
    with closing(BucketWriter(path, _DIGEST, _BUCKETS)) as writer:

        def note(split: str, texts: Sequence[bytes]) -> None:
            records = np.empty(len(texts), _DIGEST)
            digests = b"".join([hashlib.blake2b(text, digest_size=16).digest() for text in texts])
            records["high"], records["low"] = np.frombuffer(digests, ">u8").reshape(-1, 2).T
            records["split"] = PRECEDENCE.index(split)
            records["number"] = np.arange(len(texts)) + documents[split]
            documents[split] += len(texts)
            writer.add(records, records["high"] >> np.uint64(56))

        yield note


def deduplicate(parts: Sequence[Path], duplicates: bool, leaks: bool, record: Path) -> None:
    """Note in `record` the `duplicates` (of a split, all but the first), the `leaks` (documents of
    a split of higher precedence), or both, given the records of all `parts`. Raises MlmError for
    damaged digests."""
    for part in parts:
        check_outputs(part, [part.with_suffix(".digests")])
    digests = [Buckets(part.with_suffix(".digests"), _DIGEST, _BUCKETS) for part in parts]
    with removing(record, len(parts)) as remove:
        for bucket in range(_BUCKETS) if duplicates or leaks else ():
            by_part = [of_part.read(bucket, bucket + 1) for of_part in digests]
            part = np.repeat(np.arange(len(parts)), [len(records) for records in by_part])
            records = np.concatenate(by_part)
            # Stable: of equal documents of a split, the first stays the first.
            order = np.lexsort([records[key].astype("u8") for key in ("split", "low", "high")])
            records, part = records[order], part[order]
            verdict = _verdicts(records, duplicates, leaks)
            rows = np.flatnonzero(verdict)
            remove(part[rows], records["split"][rows], records["number"][rows], verdict[rows])
    PassRecord(len(parts)).write(record)


def _verdicts(records: np.ndarray, duplicates: bool, leaks: bool) -> np.ndarray:
    """Return KEPT, DUPLICATE or LEAKED for each of `records`, which are sorted by digest and
    split."""
    verdict = np.full(len(records), KEPT, np.uint8)
    if not len(records):
        return verdict
    same_text = (np.diff(records["high"]) == 0) & (np.diff(records["low"]) == 0)
    split = records["split"]
    if leaks:
        starts = np.flatnonzero(np.concatenate(([True], ~same_text)))
        highest = np.repeat(split[starts], np.diff(np.append(starts, len(records))))
        verdict[split != highest] = LEAKED
    if duplicates:
        verdict[1:][same_text & (split[1:] == split[:-1])] = DUPLICATE
    return verdict


def _buckets_of_removed(parts: int) -> np.ndarray:
    """Return the bucket of removed documents by part, split and reason."""
    shape = parts, len(PRECEDENCE), len(REASONS)
    return np.arange(np.prod(shape)).reshape(shape)


@contextmanager
def removing(record: Path, parts: int) -> Iterator[Callable[..., None]]:
    """Context manager: yields a function that notes beside `record` removed documents, given their
    parts, splits (indices in `PRECEDENCE`), numbers and verdicts."""
    buckets = _buckets_of_removed(parts)
    with (
        replacing(record.with_suffix(".numbers")) as path,
        closing(BucketWriter(path, _NUMBER, buckets.size)) as writer,
    ):
        yield lambda part, split, number, verdict: writer.add(
            np.asarray(number, _NUMBER), buckets[part, split, np.asarray(verdict) - 1]
        )


class Removed:
    """The documents of `parts` parts that passes removed, as noted in `paths`."""

    def __init__(self, paths: Sequence[Path], parts: int):
        self._buckets = _buckets_of_removed(parts)
        self._files = [Buckets(path, _NUMBER, self._buckets.size) for path in paths]

    def counts(self, split: str) -> np.ndarray:
        """Return the number of removed documents of `split`, [parts, reasons]."""
        total = sum(file.counts for file in self._files)
        return total[self._buckets[:, PRECEDENCE.index(split)]]

    def verdicts(self, part: int, split: str, documents: int) -> np.ndarray:
        """Return a byte for each of the `documents` of `split` in `part`: KEPT, or why it is
        removed."""
        verdicts = np.full(documents, KEPT, np.uint8)
        for reason, bucket in enumerate(self._buckets[part, PRECEDENCE.index(split)].tolist()):
            for file in self._files:
                verdicts[file.read(bucket, bucket + 1)] = reason + 1
        return verdicts

"""Exact duplicates within a split and leaks between splits, by 128-bit digests on disk. Of these,
one bucket of 256 at a time is sorted in memory: of a billion documents, 100 MB."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mlm.corpus.artefacts import PassRecord, ReadPart
from mlm.corpus.buckets import Buckets, BucketWriter
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.atomic import replacing

#: Later splits lose a document that an earlier one has.
PRECEDENCE = ("test", "validation", "train")
KEPT, DUPLICATE, LEAKED, CONTAMINATED, NEAR_DUPLICATE, NEAR_LEAKED = range(6)
#: The name of each verdict but KEPT where documents are counted.
REASONS = ("duplicate", "leaked", "decontamination", "near_duplicate", "near_leaked")
#: The number of values of a digest's last byte.
_BUCKETS = 256
_DIGEST = np.dtype([("high", "u8"), ("low", "u8"), ("split", "u1"), ("index", "u8")])
_CHUNK = 1 << 20


class Numbering:
    """Numbers of the documents of all parts: test, validation, train, each in the order of parts.
    `starts` has the first of each split and part, [splits, parts]."""

    def __init__(self, parts: Sequence[ReadPart]):
        counts = [[sum(part.splits[split].batches) for part in parts] for split in PRECEDENCE]
        self.counts: np.ndarray = np.array(counts, np.int64)
        self.documents = int(self.counts.sum())
        self.starts = (np.cumsum(self.counts) - self.counts.ravel()).reshape(self.counts.shape)

    def documents_of(self, split: str, part: int | None = None) -> range:
        """Return the numbers of the documents of `split`, in `part` or in all."""
        row = PRECEDENCE.index(split)
        start = int(self.starts[row, part or 0])
        return range(start, start + int(self.counts[row, part].sum()))

    def positions(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return split (an index in `PRECEDENCE`), part, and index in both of each of `numbers`."""
        starts = self.starts.ravel()
        # Of equal starts, all but the last are of parts without documents.
        place = np.searchsorted(starts, numbers, "right") - 1
        split, part = np.divmod(place, len(self.starts[0]))
        return split, part, numbers - starts[place]


def digest_writer(path: Path) -> BucketWriter:
    """Open a file for the digests of a part."""
    return BucketWriter(path, _DIGEST, _BUCKETS)


def write_digests(writer: BucketWriter, split: str, first: int, texts: Sequence[bytes]) -> None:
    """Write the BLAKE2b digests (RFC 7693) of the documents of `split` from index `first` on."""
    records = np.empty(len(texts), _DIGEST)
    digests = b"".join([hashlib.blake2b(text, digest_size=16).digest() for text in texts])
    records["high"], records["low"] = np.frombuffer(digests, "u8").reshape(-1, 2).T
    records["split"] = PRECEDENCE.index(split)
    records["index"] = np.arange(first, first + len(texts))
    writer.add(records, records["high"] >> np.uint64(56))


@contextmanager
def verdicts_of(record: Path, numbers: range) -> Iterator[np.ndarray]:
    """Context manager: yields a byte for each of the documents `numbers`, KEPT, to be changed to
    why it is removed; they are written beside `record`."""
    with replacing(record.with_suffix(".verdicts")) as path:
        # All is written before it is mapped: on a full disk, a mapped gap would kill the process.
        with open(path, "wb") as file:
            for start in range(0, max(len(numbers), 1), _CHUNK):
                file.write(bytes([KEPT]) * min(_CHUNK, max(len(numbers), 1) - start))
        verdicts = np.memmap(path, np.uint8, "r+")
        yield verdicts
        verdicts.flush()


def deduplicate(parts: Sequence[Path], duplicates: bool, leaks: bool, record: Path) -> None:
    """Note in `record` the `duplicates` (of a split, all but the first), the `leaks` (documents of
    a split of higher precedence), or both, by the records of all `parts`. Raises MlmError for
    damaged digests."""
    paths = [part.with_suffix(".digests") for part in parts]
    for part, path in zip(parts, paths, strict=True):
        check_outputs(part, [path])
    digests = [Buckets(path, _DIGEST, _BUCKETS) for path in paths]
    numbering = Numbering(list(map(ReadPart.read, parts)))
    with verdicts_of(record, range(numbering.documents)) as verdicts:
        for bucket in range(_BUCKETS) if duplicates or leaks else ():
            by_part = [of_part.read(bucket) for of_part in digests]
            part = np.repeat(np.arange(len(parts)), list(map(len, by_part)))
            records = np.concatenate(by_part)
            numbers = numbering.starts[records["split"], part] + records["index"].astype(np.int64)
            order = np.lexsort([numbers, records["low"], records["high"]])
            records, numbers = records[order], numbers[order]
            same_text = np.zeros(len(records), bool)
            same_text[1:] = (np.diff(records["high"]) == 0) & (np.diff(records["low"]) == 0)
            first = np.maximum.accumulate(np.where(same_text, 0, np.arange(len(records))))
            split = records["split"]
            if leaks:
                verdicts[numbers[split != split[first]]] = LEAKED
            if duplicates:
                again = same_text & (split == np.roll(split, 1))
                verdicts[numbers[again]] = DUPLICATE
    PassRecord(len(parts), (0, numbering.documents)).write(record)

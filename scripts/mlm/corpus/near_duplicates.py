"""Links between documents that share most of their words, found outside of memory: their MinHash
signatures (Broder 1997) share a key and agree in a share of `threshold` or more."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import PassRecord, ReadPart
from mlm.corpus.buckets import Buckets, BucketWriter
from mlm.corpus.deduplication import KEPT, PRECEDENCE
from mlm.corpus.spooling import SpooledCorpus
from mlm.corpus.words import ngram_hashes, ngrams, scrambled, word_hashes
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.atomic import replacing

#: Number of values of the first bits of a key, by which keys are gathered.
_KEY_BUCKETS = 1024
_KEY = np.dtype([("key", "<u8"), ("row", "<u4")])
#: A link: the numbers of two documents (`Numbering`), the smaller one first.
LINK = np.dtype(("<i8", 2))
#: Keys that are compared together.
_COMPARED = 1 << 19
#: Pairs whose signatures are in memory together.
_PAIRS = 1 << 16
#: A document is compared with the first one of the same key, and with so many before it.
_WINDOW = 32


class Numbering:
    """Numbers of the documents of all parts: test, validation, train, each in the order of parts. A
    part's `rows` are its own documents, one split after the other."""

    def __init__(self, parts: Sequence[ReadPart]):
        counts = np.array([[p.splits[s].documents for p in parts] for s in PRECEDENCE], np.int64)
        self.documents = int(counts.sum())
        self._starts = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
        self._first_rows = np.cumsum(counts, axis=0) - counts
        self._split_ends = np.cumsum(counts.sum(axis=1))

    def split(self, split: str) -> range:
        """Return the numbers of the documents of `split`."""
        start, end = np.append(0, self._split_ends)[PRECEDENCE.index(split) :][:2].tolist()
        return range(start, end)

    def numbers(self, part: int, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of `rows` of `part`."""
        split = np.searchsorted(self._first_rows[1:, part], rows, "right")
        return rows - self._first_rows[split, part] + self._starts[split, part]

    def positions(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return part, split (an index in `PRECEDENCE`) and index in both of each of `numbers`."""
        starts = self._starts.ravel()
        # Of equal starts, all but the last are of parts without documents.
        index = np.searchsorted(starts, numbers, "right") - 1
        split, part = np.divmod(index, self._starts.shape[1])
        return part, split, numbers - starts[index]

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return part and row of each of `numbers`."""
        part, split, index = self.positions(numbers)
        return part, self._first_rows[split, part] + index


def sign(
    corpus: SpooledCorpus, part: int, record: Path, *, words: int, bands: int, rows: int
) -> None:
    """Write beside `record` the signatures of the documents that are left of `part`, and the keys
    of their bands; see the settings of these names. Raises MlmError if a spool is damaged."""
    corpus.check(part, *PRECEDENCE)
    hashes, first_row = bands * rows, 0
    with (
        replacing(record.with_suffix(".signatures")) as signatures,
        replacing(record.with_suffix(".keys")) as keys,
        open(signatures, "wb") as file,
        closing(BucketWriter(keys, _KEY, _KEY_BUCKETS)) as writer,
    ):
        for split in PRECEDENCE:
            verdicts, start = corpus.verdicts(part, split), 0
            for batch in corpus.read(part, split):
                indices = np.flatnonzero(verdicts[start : start + len(batch)] == KEPT)
                texts = batch.column("text").take(indices).to_pylist()
                shingles, counts = shingle_hashes(*word_hashes(texts), words)
                smallest = minhashes(shingles, counts, hashes)
                signed = np.zeros((len(batch), hashes), np.uint8)
                signed[indices] = low_bytes(smallest)
                file.write(signed.tobytes())
                some = counts > 0
                records = np.empty((int(some.sum()), bands), _KEY)
                records["key"] = band_keys(smallest[some], bands)
                records["row"] = (first_row + indices[some])[:, None]
                writer.add(records.ravel(), records["key"].ravel() >> np.uint64(54))
                start += len(batch)
                first_row += len(batch)
    PassRecord(len(corpus.parts)).write(record)


class SignedCorpus:
    """The signatures and keys beside the records `signed`; with `leaks`, splits are linked, too."""

    def __init__(
        self, parts: Sequence[ReadPart], signed: Sequence[Path], near: NearDuplicates, leaks: bool
    ):
        self._numbering, self._signed, self._leaks = Numbering(parts), signed, leaks
        self._hashes = near.bands * near.rows
        self._enough = near.threshold * self._hashes
        for record in signed:
            check_outputs(record, [record.with_suffix(".signatures"), record.with_suffix(".keys")])

    def write_links(self, path: Path) -> None:
        """Write to `path` the links (`LINK`) of documents with a key in common."""
        files = [
            Buckets(record.with_suffix(".keys"), _KEY, _KEY_BUCKETS) for record in self._signed
        ]
        with open(path, "wb") as file:
            for buckets in _compared_together(sum(keys.counts for keys in files)):
                records = [keys.read(buckets.start, buckets.stop) for keys in files]
                rows = [of_part["row"].astype(int) for of_part in records]
                numbers = [self._numbering.numbers(*part) for part in enumerate(rows)]
                keys = np.concatenate([of_part["key"] for of_part in records])
                links = self._links(keys, np.concatenate(numbers))
                file.write(links.astype("<i8").tobytes())

    def _links(self, keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the links among documents with a key in common, [links, 2]."""
        order = np.lexsort([numbers, keys])
        keys, numbers = keys[order], numbers[order]
        begins = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
        if not self._leaks:
            begins[1:] |= np.diff(self._numbering.positions(numbers)[1]) > 0
        indices = np.arange(len(numbers))
        firsts = np.maximum.accumulate(np.where(begins, indices, 0))
        later = np.flatnonzero(firsts < indices)
        like_the_first = begins.copy()
        like_the_first[later] = self._alike(numbers[firsts[later]], numbers[later])
        after = [later[like_the_first[later]]]
        before = [firsts[after[0]]]
        for distance in range(1, _WINDOW + 1):
            later = later[later - distance > firsts[later]]
            # Two that are like the first are in its cluster.
            open_pairs = later[~(like_the_first[later] & like_the_first[later - distance])]
            alike = self._alike(numbers[open_pairs - distance], numbers[open_pairs])
            after.append(open_pairs[alike])
            before.append(after[-1] - distance)
        return np.stack([numbers[np.concatenate(side)] for side in (before, after)], axis=1)

    def _alike(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return for each pair of documents whether their signatures agree: bool [pairs]."""
        alike = np.empty(len(some), bool)
        for start in range(0, len(some), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            one, other = self._signatures(some[pairs]), self._signatures(others[pairs])
            alike[pairs] = (one == other).sum(axis=1) >= self._enough
        return alike

    def _signatures(self, numbers: np.ndarray) -> np.ndarray:
        """Return the signatures of documents, uint8 [documents, hashes]."""
        parts, rows = self._numbering.rows(numbers)
        signatures = np.empty((len(numbers), self._hashes), np.uint8)
        for part in np.unique(parts):
            of_part = parts == part
            # Mapped anew each time, so that what was read of it does not stay in memory.
            file = np.memmap(self._signed[part].with_suffix(".signatures"), np.uint8, "r")
            signatures[of_part] = file.reshape(-1, self._hashes)[rows[of_part]]
        return signatures


def _compared_together(counts: np.ndarray) -> Iterator[range]:
    """Yield all buckets in their order, as many at a time as are compared together; at least
    one."""
    first = 0
    while first < len(counts):
        sizes = np.cumsum(counts[first:])
        stop = first + max(1, int(np.searchsorted(sizes, _COMPARED, "right")))
        yield range(first, stop)
        first = stop


#: n-grams that are hashed together.
_BLOCK = 1 << 15


def shingle_hashes(
    words: np.ndarray, counts: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a 32-bit hash of each n-gram of `size` of the `words` of `word_hashes`, and the number
    of n-grams of each text. A shorter text is one n-gram of all its words."""
    hashes, whole = ngrams(words, counts, size)
    first = np.cumsum(counts) - counts
    for text in np.flatnonzero((counts > 0) & (counts < size)):
        start = first[text]
        hashes[start] = ngram_hashes(words[start : start + counts[text]], size)[0]
        whole[start] = True
    per_text = np.where(counts < size, np.minimum(counts, 1), counts - size + 1)
    return (hashes[whole] >> np.uint64(32)).astype(np.uint32), per_text


def minhashes(shingles: np.ndarray, counts: np.ndarray, hashes: int) -> np.ndarray:
    """Return the smallest value of each of `hashes` functions of the `shingles`, uint32 [texts,
    hashes]; the largest number for a text without any."""
    smallest = np.full((hashes, len(counts)), np.iinfo(np.uint32).max, np.uint32)
    drawn = scrambled(np.arange(1, 2 * hashes + 1, dtype=np.uint64)).astype(np.uint32)
    masks, factors = drawn[:hashes], drawn[hashes:] | np.uint32(1)
    texts = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[texts]
    ends = np.append(starts[1:], len(shingles))
    begin = 0
    while begin < len(texts):
        stop = max(int(np.searchsorted(ends, starts[begin] + _BLOCK, "right")), begin + 1)
        block = shingles[starts[begin] : ends[stop - 1]]
        offsets = starts[begin:stop] - starts[begin]
        values = np.empty_like(block)
        for function in range(hashes):
            np.bitwise_xor(block, masks[function], out=values)
            np.multiply(values, factors[function], out=values)
            smallest[function, texts[begin:stop]] = np.minimum.reduceat(values, offsets)
        begin = stop
    return np.ascontiguousarray(smallest.T)


def band_keys(smallest: np.ndarray, bands: int) -> np.ndarray:
    """Return a 64-bit key of each band of `smallest` (corpus.filters: bands, rows): uint64 [texts,
    bands]. Locality-sensitive hashing (Indyk and Motwani 1998)."""
    rows = smallest.reshape(len(smallest), bands, smallest.shape[1] // bands).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, bands + 1, dtype=np.uint64), rows.shape[:2])
    for row in range(rows.shape[2]):
        keys = scrambled(keys * np.uint64(0x9E3779B97F4A7C15) + rows[:, :, row])
    return keys


def low_bytes(smallest: np.ndarray) -> np.ndarray:
    """Return a byte of each hash, by which signatures are compared; different hashes share it one
    time in 256 (b-bit minwise hashing, Li and König 2010)."""
    return ((smallest * np.uint32(0x9E3779B1)) >> np.uint32(24)).astype(np.uint8)

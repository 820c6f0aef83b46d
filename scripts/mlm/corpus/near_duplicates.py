"""Near-duplicates: documents whose MinHash signatures (Broder 1997) share the key of a band and
agree in a share of `threshold` or more are linked, outside of memory; of those that links join
(union-find, Tarjan 1975), the first document stays."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import Cluster, NearDuplicate, NearDuplicatesOfSplit, PassRecord
from mlm.corpus.buckets import Buckets, BucketWriter
from mlm.corpus.deduplication import NEAR_DUPLICATE, NEAR_LEAKED, PRECEDENCE, verdicts_of
from mlm.corpus.spooling import SpooledCorpus
from mlm.corpus.words import ngram_hashes, ngrams, scrambled, word_hashes
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError

_KEY = np.dtype([("key", "u8"), ("number", "i8")])
#: Keys that are compared together, about; pairs whose signatures are in memory together.
_COMPARED, _PAIRS = 1 << 19, 1 << 16
#: A document is compared with the first one of the same key, and with so many before it.
_WINDOW = 32
#: Documents, or links, that are in memory together; n-grams that are hashed together.
_CHUNK, _BLOCK = 1 << 20, 1 << 15
#: Shown of a split: clusters, documents of each, other removed documents; characters of a text.
_CLUSTERS, _OF_CLUSTER, _SAMPLES, _SHOWN = 5, 3, 8, 240


def _bucket_bits(corpus: SpooledCorpus, near: NearDuplicates) -> int:
    """Return by how many of their first bits keys are gathered."""
    return min((corpus.numbering.documents * near.bands // _COMPARED).bit_length(), 16)


def sign(corpus: SpooledCorpus, part: int, near: NearDuplicates, record: Path) -> None:
    """Write beside `record` the signatures of the documents that are left of `part`, and the keys
    of their bands. Raises MlmError if a spool is damaged."""
    hashes, bits, row = near.bands * near.rows, _bucket_bits(corpus, near), 0
    with (
        replacing(record.with_suffix(".signatures")) as signatures,
        replacing(record.with_suffix(".keys")) as keys,
        open(signatures, "wb") as file,
        closing(BucketWriter(keys, _KEY, 1 << bits)) as writer,
    ):
        for split in PRECEDENCE:
            numbers = corpus.numbering.documents_of(split, part)
            remaining = corpus.remaining_indices(part, split)
            for batch in corpus.read(part, split, remaining):
                indices, remaining = np.split(remaining, [len(batch)])
                words = word_hashes(batch.column("text").to_pylist())
                shingles, counts = shingle_hashes(*words, near.words)
                smallest = minhashes(shingles, counts, hashes)
                # A row for each document of the part; nobody reads those of removed ones.
                signed = np.zeros((indices[-1] - indices[0] + 1, hashes), np.uint8)
                signed[indices - indices[0]] = low_bytes(smallest)
                file.seek((row + int(indices[0])) * hashes)
                signed.tofile(file)
                some = counts > 0
                records = np.empty((int(some.sum()), near.bands), _KEY)
                records["key"] = band_keys(smallest[some], near.bands)
                records["number"] = (numbers.start + indices[some])[:, None]
                buckets = records["key"] >> np.uint64(48) >> np.uint64(16 - bits)
                writer.add(records.ravel(), buckets.ravel())
            row += len(numbers)
    PassRecord(len(corpus.parts), (0, 0)).write(record)


def cluster(
    corpus: SpooledCorpus, signed: Sequence[Path], near: NearDuplicates, leaks: bool, record: Path
) -> None:
    """Note in `record` the near-duplicates to remove, by the records of `sign`: all but the
    first of a cluster. One linked with a split of higher precedence, directly or through others, is
    leaked; without `leaks`, splits are apart. Raises MlmError for damaged files and if more than
    `largest_share` would go."""
    numbering, splits, removed = corpus.numbering, {}, 0
    for path in signed:
        check_outputs(path, [path.with_suffix(".signatures"), path.with_suffix(".keys")])
    with (
        TemporaryDirectory(prefix=".near-", dir=record.parent) as scratch,
        verdicts_of(record, range(numbering.documents)) as verdicts,
    ):
        links = Path(scratch, "links")
        with open(links, "wb") as file:
            for pairs in _Links(corpus, signed, near, leaks).by_bucket():
                pairs.tofile(file)
        clusters = _Clusters(Path(scratch, "parents"), numbering.documents)
        for split in PRECEDENCE:
            documents = numbering.documents_of(split)
            # Only now, so that no held-out documents are joined by one of train.
            for pairs in _pairs(links, documents):
                clusters.join(pairs)
            numbers, firsts = clusters.not_first(documents)
            verdicts[numbers] = np.where(firsts < documents.start, NEAR_LEAKED, NEAR_DUPLICATE)
            splits[split] = _described(corpus, numbers, firsts)
            removed += len(numbers)
        total = sum(sum(corpus.remaining(split)) for split in PRECEDENCE)
        if removed > near.largest_share * total:
            raise _refusal(removed, total, near, splits)
    PassRecord(len(corpus.parts), (0, numbering.documents), near=splits).write(record)


class _Links:
    """Finds the links of documents; with `leaks`, those of different splits, too."""

    def __init__(
        self, corpus: SpooledCorpus, signed: Sequence[Path], near: NearDuplicates, leaks: bool
    ):
        self._numbering, self._leaks = corpus.numbering, leaks
        self._buckets = 1 << _bucket_bits(corpus, near)
        self._hashes = near.bands * near.rows
        self._enough = near.threshold * self._hashes
        self._keys = [Buckets(p.with_suffix(".keys"), _KEY, self._buckets) for p in signed]
        self._signatures = [path.with_suffix(".signatures") for path in signed]
        counts = self._numbering.counts
        self._first_rows = np.cumsum(counts, axis=0) - counts

    def by_bucket(self) -> Iterator[np.ndarray]:
        """Yield the links among documents with a key in common, [links, 2]: the numbers of two
        documents (`Numbering`), the smaller one first."""
        for bucket in range(self._buckets):
            records = np.concatenate([keys.read(bucket) for keys in self._keys])
            records = records[np.lexsort([records["number"], records["key"]])]
            yield self._links(records["key"], records["number"])

    def _links(self, keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        begins = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
        if not self._leaks:
            begins[1:] |= np.diff(self._numbering.positions(numbers)[0]) > 0
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
            one, other = self._signed(some[pairs]), self._signed(others[pairs])
            alike[pairs] = (one == other).sum(axis=1) >= self._enough
        return alike

    def _signed(self, numbers: np.ndarray) -> np.ndarray:
        """Return the signatures of documents, uint8 [documents, hashes]."""
        splits, parts, indices = self._numbering.positions(numbers)
        rows = self._first_rows[splits, parts] + indices
        signatures = np.empty((len(numbers), self._hashes), np.uint8)
        for part in np.unique(parts):
            of_part = parts == part
            # Mapped anew each time, so that what was read of it does not stay in memory.
            file = np.memmap(self._signatures[part], np.uint8, "r")
            signatures[of_part] = file.reshape(-1, self._hashes)[rows[of_part]]
        return signatures


class _Clusters:
    """Clusters of documents: parents, in a new file, lead to the first document of each."""

    def __init__(self, path: Path, size: int):
        # All is written before it is mapped: on a full disk, a mapped gap would kill the process.
        with open(path, "wb") as file:
            for start in range(0, max(size, 1), _CHUNK):
                np.arange(start, min(start + _CHUNK, max(size, 1))).tofile(file)
        self._parents = np.memmap(path, np.int64, "r+")

    def join(self, pairs: np.ndarray) -> None:
        """Join the clusters of each of `pairs` [links, 2] of documents."""
        while len(pairs):
            roots = self._first(pairs)
            pairs = roots[roots[:, 0] != roots[:, 1]]
            # Each below the smallest that it is linked to; other links wait for the next round.
            np.minimum.at(self._parents, pairs.max(axis=1), pairs.min(axis=1))

    def _first(self, numbers: np.ndarray) -> np.ndarray:
        """Return the first document of the cluster of each of `numbers`."""
        roots = self._parents[numbers]
        while len(roots) and ((above := self._parents[roots]) != roots).any():
            roots = above
        self._parents[numbers] = roots
        return np.asarray(roots)

    def not_first(self, documents: range) -> tuple[np.ndarray, np.ndarray]:
        """Return those of `documents` that are not the first of their clusters, and the first."""
        parts = [np.empty((2, 0), np.int64)]
        for start in range(documents.start, documents.stop, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, documents.stop))
            both = np.stack([numbers, self._first(numbers)])
            parts.append(both[:, both[0] != both[1]])
        numbers, firsts = np.concatenate(parts, axis=1)
        return numbers, firsts


def _pairs(links: Path, documents: range) -> Iterator[np.ndarray]:
    """Yield the links of `documents` with each other and with those before, by chunks."""
    with open(links, "rb") as file:
        while len(pairs := np.fromfile(file, np.int64, 2 * _CHUNK).reshape(-1, 2)):
            later = pairs[:, 1]
            yield pairs[(later >= documents.start) & (later < documents.stop)]


def _described(
    corpus: SpooledCorpus, numbers: np.ndarray, firsts: np.ndarray
) -> NearDuplicatesOfSplit:
    """Describe what a split loses: documents `numbers` of clusters that begin with `firsts`."""

    def beginning(number: int) -> tuple[str, str]:
        """Return the beginning of a document, and its split."""
        split, part, index = corpus.numbering.positions(np.array([number]))
        (batch,) = corpus.read(int(part[0]), PRECEDENCE[split[0]], index)
        text = batch.column("text")[0].as_py()
        short = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return short, PRECEDENCE[split[0]]

    clusters, sizes = np.unique(firsts, return_counts=True)
    largest = []
    # Of equal ones the first.
    for index in np.argsort(-sizes, kind="stable")[:_CLUSTERS]:
        members = numbers[firsts == clusters[index]][:_OF_CLUSTER].tolist()
        texts = tuple(beginning(number)[0] for number in members)
        largest.append(Cluster(int(sizes[index]), *beginning(clusters[index].item()), texts))
    chosen = np.unique(np.arange(_SAMPLES) * len(numbers) // _SAMPLES)[: len(numbers)]
    pairs = zip(numbers[chosen].tolist(), firsts[chosen].tolist(), strict=True)
    samples = [NearDuplicate(beginning(one)[0], *beginning(first)) for one, first in pairs]
    return NearDuplicatesOfSplit(len(clusters), tuple(largest), tuple(samples))


def _refusal(
    removed: int, total: int, near: NearDuplicates, splits: dict[str, NearDuplicatesOfSplit]
) -> MlmError:
    largest = max((c for one in splits.values() for c in one.largest), key=lambda c: c.removed)
    return MlmError(
        f"{removed:,} of {total:,} documents ({removed / total:.1%}) are near-duplicates, more "
        f"than corpus.filters.near_duplicates.largest_share: {near.largest_share}. The largest "
        f"cluster loses {largest.removed:,} to the document that begins {largest.kept[:80]!r}. "
        f"Raise threshold ({near.threshold}) or words ({near.words}), or largest_share"
    )


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

"""Clusters of near-duplicates, of which the first document stays, by union-find (Tarjan 1975)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import Cluster, NearDuplicate, NearDuplicatesOfSplit, PassRecord
from mlm.corpus.deduplication import NEAR_DUPLICATE, NEAR_LEAKED, PRECEDENCE, removing
from mlm.corpus.near_duplicates import LINK, Numbering, SignedCorpus
from mlm.corpus.spooling import SpooledCorpus
from mlm.foundations.errors import MlmError

#: Documents, or links, that are in memory together.
_CHUNK = 1 << 20
#: Shown of a split: clusters, documents of each, other removed documents; characters of a text.
_CLUSTERS, _OF_CLUSTER, _SAMPLES, _SHOWN = 5, 3, 8, 240


def cluster(
    corpus: SpooledCorpus, signed: Sequence[Path], near: NearDuplicates, leaks: bool, record: Path
) -> None:
    """Note in `record` the near-duplicates to remove, given the records of `sign`: all but the
    first of a cluster. One linked with a split of higher precedence, directly or through others, is
    leaked; without `leaks`, splits are apart. Raises MlmError for damaged files and if more than
    `largest_share` would go."""
    numbering, splits, removed = Numbering(corpus.parts), {}, 0
    with (
        TemporaryDirectory(prefix=".near-", dir=record.parent) as scratch,
        removing(record, len(corpus.parts)) as remove,
    ):
        links = Path(scratch, "links")
        SignedCorpus(corpus.parts, signed, near, leaks).write_links(links)
        clusters = _Clusters(Path(scratch, "parents"), numbering.documents)
        for split in PRECEDENCE:
            documents = numbering.split(split)
            # Only now, so that no held-out documents are joined by one of train.
            for pairs in _pairs(links, documents):
                clusters.join(pairs)
            numbers, firsts = clusters.not_first(documents)
            verdict = np.where(firsts < documents.start, NEAR_LEAKED, NEAR_DUPLICATE)
            remove(*numbering.positions(numbers), verdict)
            splits[split] = _described(corpus, numbering, numbers, firsts)
            removed += len(numbers)
        total = sum(sum(corpus.remaining(split)) for split in PRECEDENCE)
        if removed > near.largest_share * total:
            raise _refusal(removed, total, near, splits)
    PassRecord(len(corpus.parts), near=splits).write(record)


class _Clusters:
    """Clusters of documents: parents, in a new file, lead to the first document of each."""

    def __init__(self, path: Path, size: int):
        # All is written before it is mapped: on a full disk, a mapped gap would kill the process.
        with open(path, "wb") as file:
            for start in range(0, max(size, 1), _CHUNK):
                file.write(np.arange(start, min(start + _CHUNK, max(size, 1)), dtype=np.int64))
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
        parts = [(np.empty(0, np.int64),) * 2]
        for start in range(documents.start, documents.stop, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, documents.stop))
            roots = self._first(numbers)
            later = roots != numbers
            parts.append((numbers[later], roots[later]))
        numbers, roots = map(np.concatenate, zip(*parts, strict=True))
        return numbers, roots


def _pairs(links: Path, documents: range) -> Iterator[np.ndarray]:
    """Yield the links of `documents` with each other and with those before, by chunks."""
    with open(links, "rb") as file:
        while len(pairs := np.fromfile(file, LINK, _CHUNK)):
            later = pairs[:, 1]
            yield pairs[(later >= documents.start) & (later < documents.stop)]


def _described(
    corpus: SpooledCorpus, numbering: Numbering, numbers: np.ndarray, firsts: np.ndarray
) -> NearDuplicatesOfSplit:
    """Describe what a split loses: documents `numbers` of clusters that begin with `firsts`."""

    def beginning(number: int) -> tuple[str, str]:
        """Return the beginning of a document, and its split."""
        part, split, index = (int(one[0]) for one in numbering.positions(np.array([number])))
        (batch,) = corpus.read(part, PRECEDENCE[split], wanted=range(index, index + 1))
        text = batch.column("text")[0].as_py()
        short = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return short, PRECEDENCE[split]

    clusters, sizes = np.unique(firsts, return_counts=True)
    largest = []
    # Of equal ones the first.
    for index in np.argsort(-sizes, kind="stable")[:_CLUSTERS]:
        members = numbers[firsts == clusters[index]][:_OF_CLUSTER]
        texts = tuple(beginning(number)[0] for number in members)
        largest.append(Cluster(int(sizes[index]), *beginning(clusters[index]), texts))
    chosen = np.unique(np.arange(_SAMPLES) * len(numbers) // _SAMPLES) if len(numbers) else []
    samples = [NearDuplicate(beginning(numbers[n])[0], *beginning(firsts[n])) for n in chosen]
    return NearDuplicatesOfSplit(len(clusters), tuple(largest), tuple(samples))


def _refusal(
    removed: int, total: int, near: NearDuplicates, splits: dict[str, NearDuplicatesOfSplit]
) -> MlmError:
    largest = max((c for one in splits.values() for c in one.largest), key=lambda c: c.removed)
    return MlmError(
        f"{removed:,} of {total:,} documents ({removed / total:.1%}) would be left out as "
        "near-duplicates; at most the share corpus.filters.near_duplicates.largest_share, "
        f"{near.largest_share}, is expected. The largest cluster loses {largest.removed:,} "
        f"to the document that begins {largest.kept[:80]!r}. Documents need to have more in "
        f"common with a higher threshold than {near.threshold}, or with more words than "
        f"{near.words}. If the corpus is like that, raise largest_share"
    )

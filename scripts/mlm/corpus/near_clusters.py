"""Clusters of near-duplicates, of which the first document stays, by union-find (Tarjan 1975)."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import (
    Cluster,
    NearDuplicate,
    NearDuplicatesOfSplit,
    RemovedDocuments,
)
from mlm.corpus.corpus_writing import SpooledCorpus
from mlm.corpus.deduplication import (
    NEAR_DUPLICATE,
    NEAR_LEAKED,
    PRECEDENCE,
    removing,
)
from mlm.corpus.near_duplicates import LINK, Numbering
from mlm.foundations.errors import MlmError

#: Documents, or links, that are in memory together.
_CHUNK = 1 << 20
#: What is shown of a split: clusters, documents of each, others that went; characters of a text.
_CLUSTERS, _OF_CLUSTER, _SAMPLES, _SHOWN = 5, 3, 8, 240


def write_near_removed(
    corpus: SpooledCorpus,
    links: Path,
    settings: NearDuplicates,
    removed: Path,
    scratch: Path,
) -> RemovedDocuments:
    """Write to `removed` the near-duplicates to leave out of `corpus`, for `Removed` to read.

    `links` is what `SignedCorpus.write_links` wrote, `scratch` a directory for working files. A
    document that is linked with one in a split of higher precedence, directly or through others of
    its own split or a higher one, is leaked. Raises MlmError if more than `largest_share` would go.
    """
    numbering = Numbering(corpus.parts)
    clusters = _Clusters(_on_disk(scratch / "parents", numbering.documents))
    splits, total = {}, 0
    with removing(removed, len(corpus.parts)) as remove:
        for split in PRECEDENCE:
            own = numbering.split(split)
            # Only now, so that no held-out documents are joined by one of train.
            for pairs in _pairs(links, own):
                clusters.join(pairs)
            sizes = _on_disk(scratch / "sizes", numbering.documents)
            for numbers, roots in clusters.left_out(own):
                np.add.at(sizes, roots, 1)
                part, of_split, number = numbering.places(numbers)
                verdict = np.where(roots < own.start, NEAR_LEAKED, NEAR_DUPLICATE)
                remove(part, of_split, number, verdict)
                total += len(numbers)
            splits[split] = _described(corpus, numbering, clusters, own, sizes)
    documents = sum(sum(corpus.kept(split)) for split in PRECEDENCE)
    if total > settings.largest_share * documents:
        raise _refusal(total, documents, settings, splits)
    return RemovedDocuments(parts=len(corpus.parts), removed=total, near=splits)


class _Clusters:
    """Which documents are in a cluster: `parents`, zeros at first, lead to its first document."""

    def __init__(self, parents: np.ndarray):
        self._parents = parents
        for start in range(0, len(parents), _CHUNK):
            parents[start : start + _CHUNK] = np.arange(start, min(start + _CHUNK, len(parents)))

    def join(self, pairs: np.ndarray) -> None:
        """Let `pairs` [links, 2] of documents be in one cluster each."""
        while len(pairs):
            roots = self.first(pairs)
            pairs = roots[roots[:, 0] != roots[:, 1]]
            # Each below the smallest that it is linked to; other links wait for the next turn.
            np.minimum.at(self._parents, pairs.max(axis=1), pairs.min(axis=1))

    def first(self, numbers: np.ndarray) -> np.ndarray:
        """The first document of the cluster of each of `numbers`."""
        roots = self._parents[numbers]
        while len(roots) and ((above := self._parents[roots]) != roots).any():
            roots = above
        self._parents[numbers] = roots
        return np.asarray(roots)

    def left_out(self, own: range) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Documents among `own` that are not the first of their clusters, and these, by chunks."""
        for start in range(own.start, own.stop, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, own.stop))
            roots = self.first(numbers)
            left = roots != numbers
            if left.any():
                yield numbers[left], roots[left]


def _on_disk(place: Path, size: int) -> np.ndarray:
    """`size` zeros, int64, mapped from the new file `place`: they need disk, not memory."""
    if not size:
        return np.empty(0, np.int64)
    place.write_bytes(b"")
    with open(place, "r+b") as handle:
        # Really allocated: a write into a mapped hole of a full disk kills the process.
        os.posix_fallocate(handle.fileno(), 0, size * 8)
    return np.memmap(place, np.int64, "r+")


def _pairs(links: Path, own: range) -> Iterator[np.ndarray]:
    """The links of the documents `own` with each other and with those before, by chunks."""
    with open(links, "rb") as file:
        while len(pairs := np.fromfile(file, LINK, _CHUNK)):
            later = pairs[:, 1]
            yield pairs[(later >= own.start) & (later < own.stop)]


def _described(
    corpus: SpooledCorpus,
    numbering: Numbering,
    clusters: _Clusters,
    own: range,
    sizes: np.ndarray,
) -> NearDuplicatesOfSplit:
    """What went out of the documents `own`, of which cluster c lost `sizes[c]`."""
    number_of_clusters = removed = 0
    largest: list[tuple[int, int]] = []
    for start in range(0, len(sizes), _CHUNK):
        chunk = sizes[start : start + _CHUNK]
        some = np.flatnonzero(chunk)
        number_of_clusters += len(some)
        removed += int(chunk.sum())
        # Of equal ones the first.
        top = some[np.argsort(-chunk[some], kind="stable")[:_CLUSTERS]]
        largest += [(-int(chunk[place]), start + int(place)) for place in top]
    largest = sorted(largest)[:_CLUSTERS]
    wanted = {n * removed // _SAMPLES for n in range(_SAMPLES)} if removed else set()
    members: dict[int, list[int]] = {root: [] for _, root in largest}
    samples: list[tuple[int, int]] = []
    seen = 0
    for numbers, roots in clusters.left_out(own):
        for root, shown in members.items():
            shown += numbers[roots == root][: _OF_CLUSTER - len(shown)].tolist()
        here = [n - seen for n in sorted(wanted) if seen <= n < seen + len(numbers)]
        samples += [(int(numbers[place]), int(roots[place])) for place in here]
        seen += len(numbers)

    def shown(number: int) -> tuple[str, str]:
        """The beginning of a document, and its split."""
        part, split, place = (int(found[0]) for found in numbering.places(np.array([number])))
        (batch,) = corpus.read(part, PRECEDENCE[split], wanted=range(place, place + 1))
        text = batch.column("text")[0].as_py()
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…", PRECEDENCE[split]

    return NearDuplicatesOfSplit(
        clusters=number_of_clusters,
        largest=tuple(
            Cluster(-size, *shown(root), tuple(shown(n)[0] for n in members[root]))
            for size, root in largest
        ),
        samples=tuple(NearDuplicate(shown(n)[0], *shown(root)) for n, root in samples),
    )


def _refusal(
    removed: int,
    documents: int,
    settings: NearDuplicates,
    splits: dict[str, NearDuplicatesOfSplit],
) -> MlmError:
    largest = max((c for of in splits.values() for c in of.largest), key=lambda c: c.removed)
    return MlmError(
        f"{removed:,} of {documents:,} documents ({removed / documents:.1%}) would be left out as "
        "near-duplicates; at most the share corpus.filters.near_duplicates.largest_share, "
        f"{settings.largest_share}, is expected. The largest cluster loses {largest.removed:,} "
        f"to the document that begins {largest.kept[:80]!r}. Documents need to have more in "
        f"common with a higher threshold than {settings.threshold}, or with more words than "
        f"{settings.words}. If the corpus is like that, raise largest_share"
    )

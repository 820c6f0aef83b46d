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
#: What is shown of a split: clusters, documents of each, others that went; characters of a text.
_CLUSTERS, _OF_CLUSTER, _SAMPLES, _SHOWN = 5, 3, 8, 240


def cluster(
    corpus: SpooledCorpus, signed: Sequence[Path], near: NearDuplicates, leaks: bool, record: Path
) -> None:
    """Note in `record` which near-duplicates to leave out, by the records of `sign`: all but the
    first of a cluster. One linked with a split of higher precedence, directly or through others, is
    leaked; without `leaks`, splits are apart. Raises MlmError for damaged files and if more than
    `largest_share` would go."""
    numbering, splits, total = Numbering(corpus.parts), {}, 0
    with (
        TemporaryDirectory(prefix=".near-", dir=record.parent) as scratch,
        removing(record, len(corpus.parts)) as remove,
    ):
        links = Path(scratch, "links")
        SignedCorpus(corpus.parts, signed, near, leaks).write_links(links)
        clusters = _Clusters(Path(scratch, "parents"), numbering.documents)
        for split in PRECEDENCE:
            own = numbering.split(split)
            # Only now, so that no held-out documents are joined by one of train.
            for pairs in _pairs(links, own):
                clusters.join(pairs)
            numbers, firsts = clusters.left_out(own)
            verdict = np.where(firsts < own.start, NEAR_LEAKED, NEAR_DUPLICATE)
            part, of_split, number = numbering.places(numbers)
            remove(part, of_split, number, verdict)
            splits[split] = _described(corpus, numbering, numbers, firsts)
            total += len(numbers)
        documents = sum(sum(corpus.kept(split)) for split in PRECEDENCE)
        if total > near.largest_share * documents:
            raise _refusal(total, documents, near, splits)
    PassRecord(len(corpus.parts), near=splits).write(record)


class _Clusters:
    """Which documents are in a cluster: parents, in a new file, lead to its first document."""

    def __init__(self, place: Path, size: int):
        # All is written before it is mapped: on a full disk, a mapped gap would kill the process.
        with open(place, "wb") as file:
            for start in range(0, max(size, 1), _CHUNK):
                file.write(np.arange(start, min(start + _CHUNK, max(size, 1)), dtype=np.int64))
        self._parents = np.memmap(place, np.int64, "r+")

    def join(self, pairs: np.ndarray) -> None:
        """Let `pairs` [links, 2] of documents be in one cluster each."""
        while len(pairs):
            roots = self._first(pairs)
            pairs = roots[roots[:, 0] != roots[:, 1]]
            # Each below the smallest that it is linked to; other links wait for the next turn.
            np.minimum.at(self._parents, pairs.max(axis=1), pairs.min(axis=1))

    def _first(self, numbers: np.ndarray) -> np.ndarray:
        """The first document of the cluster of each of `numbers`."""
        roots = self._parents[numbers]
        while len(roots) and ((above := self._parents[roots]) != roots).any():
            roots = above
        self._parents[numbers] = roots
        return np.asarray(roots)

    def left_out(self, own: range) -> tuple[np.ndarray, np.ndarray]:
        """Documents among `own` that are not the first of their clusters, and these."""
        found = [(np.empty(0, np.int64),) * 2]
        for start in range(own.start, own.stop, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, own.stop))
            roots = self._first(numbers)
            left = roots != numbers
            found.append((numbers[left], roots[left]))
        numbers, roots = map(np.concatenate, zip(*found, strict=True))
        return numbers, roots


def _pairs(links: Path, own: range) -> Iterator[np.ndarray]:
    """The links of the documents `own` with each other and with those before, by chunks."""
    with open(links, "rb") as file:
        while len(pairs := np.fromfile(file, LINK, _CHUNK)):
            later = pairs[:, 1]
            yield pairs[(later >= own.start) & (later < own.stop)]


def _described(
    corpus: SpooledCorpus, numbering: Numbering, numbers: np.ndarray, firsts: np.ndarray
) -> NearDuplicatesOfSplit:
    """What went out of a split: documents `numbers` of clusters that begin with `firsts`."""

    def shown(number: int) -> tuple[str, str]:
        """The beginning of a document, and its split."""
        part, split, place = (int(found[0]) for found in numbering.places(np.array([number])))
        (batch,) = corpus.read(part, PRECEDENCE[split], wanted=range(place, place + 1))
        text = batch.column("text")[0].as_py()
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…", PRECEDENCE[split]

    clusters, sizes = np.unique(firsts, return_counts=True)
    largest = []
    # Of equal ones the first.
    for place in np.argsort(-sizes, kind="stable")[:_CLUSTERS]:
        members = numbers[firsts == clusters[place]][:_OF_CLUSTER]
        texts = tuple(shown(number)[0] for number in members)
        largest.append(Cluster(int(sizes[place]), *shown(clusters[place]), texts))
    chosen = np.unique(np.arange(_SAMPLES) * len(numbers) // _SAMPLES) if len(numbers) else []
    samples = [NearDuplicate(shown(numbers[n])[0], *shown(firsts[n])) for n in chosen]
    return NearDuplicatesOfSplit(len(clusters), tuple(largest), tuple(samples))


def _refusal(
    removed: int,
    documents: int,
    near: NearDuplicates,
    splits: dict[str, NearDuplicatesOfSplit],
) -> MlmError:
    largest = max((c for of in splits.values() for c in of.largest), key=lambda c: c.removed)
    return MlmError(
        f"{removed:,} of {documents:,} documents ({removed / documents:.1%}) would be left out as "
        "near-duplicates; at most the share corpus.filters.near_duplicates.largest_share, "
        f"{near.largest_share}, is expected. The largest cluster loses {largest.removed:,} "
        f"to the document that begins {largest.kept[:80]!r}. Documents need to have more in "
        f"common with a higher threshold than {near.threshold}, or with more words than "
        f"{near.words}. If the corpus is like that, raise largest_share"
    )

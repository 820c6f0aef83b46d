"""Duplicates of documents: exact ones by their digests; and near ones, whose MinHash signatures
share the key of a band and agree in a share of `threshold` or more. Those are linked, and of
documents that links join (union-find, Tarjan 1975), the first stays."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mlm.corpus.artefacts import NearDuplicate, NearDuplicatesOfSplit
from mlm.corpus.spooling import (
    DUPLICATE,
    LEAKED,
    NEAR_DUPLICATE,
    NEAR_LEAKED,
    PRECEDENCE,
    SpooledCorpus,
)
from mlm.corpus.words_and_minhash import BANDS, HASHES, NO_KEY

#: Pairs whose signatures, links that are in memory together.
_PAIRS, _CHUNK = 1 << 16, 1 << 20
#: A document is compared with the first one of the same key, and with so many before it.
_WINDOW = 32
#: Removed documents that are shown of a split, and characters of each.
_SAMPLES, _SHOWN = 8, 240


def remove_duplicates(corpus: SpooledCorpus, duplicates: bool, leaks: bool) -> None:
    """Remove the `duplicates` (of a split, all but the first), the `leaks` (documents of a split of
    higher precedence), or both."""
    for digests, numbers in corpus.equal_values("digest", 2) if duplicates or leaks else ():
        order = np.lexsort(digests.T)
        digests, numbers = digests[order], numbers[order]
        same_text = np.zeros(len(numbers), bool)
        same_text[1:] = (digests[1:] == digests[:-1]).all(axis=1)
        first = np.maximum.accumulate(np.where(same_text, 0, np.arange(len(numbers))))
        split = corpus.split_indices(numbers)
        if leaks:
            corpus.verdicts[numbers[split != split[first]]] = LEAKED
        if duplicates:
            corpus.verdicts[numbers[same_text & (split == np.roll(split, 1))]] = DUPLICATE


def remove_near_duplicates(
    corpus: SpooledCorpus, threshold: float, leaks: bool, scratch: Path
) -> None:
    """Remove all but the first of each cluster, and describe them by split. One that is linked with
    a split of higher precedence, directly or through others, is leaked; without `leaks`, splits are
    apart."""
    links, splits, parents = scratch / "links", {}, np.arange(corpus.documents)
    with open(links, "wb") as file:
        for pairs in _links(corpus, threshold, leaks, scratch / "signatures"):
            pairs.tofile(file)
    for split in PRECEDENCE:
        spools = corpus.spools_of(split)
        first, stop = spools[0].first, spools[-1].numbers.stop
        with open(links, "rb") as file:
            # Only now, so that no held-out documents are joined by one of train.
            while len(pairs := np.fromfile(file, np.int64, 2 * _CHUNK).reshape(-1, 2)):
                _join(parents, pairs[(pairs[:, 1] >= first) & (pairs[:, 1] < stop)])
        numbers = np.arange(first, stop)
        firsts = _roots(parents, numbers)
        numbers, firsts = numbers[firsts != numbers], firsts[firsts != numbers]
        corpus.verdicts[numbers] = np.where(firsts < first, NEAR_LEAKED, NEAR_DUPLICATE)
        splits[split] = _described(corpus, numbers, firsts)
    corpus.near = splits


def _links(
    corpus: SpooledCorpus, threshold: float, leaks: bool, file: Path
) -> Iterator[np.ndarray]:
    """Yield the links among documents with a key in common, [links, 2]: the numbers of two, the
    smaller one first. Signatures are copied to `file`."""
    with open(file, "wb") as stream:
        for spool in corpus.spools:
            spool.values("signature", np.uint8, HASHES).tofile(stream)
    for band in range(BANDS):
        for keys, numbers in corpus.equal_values(f"key{band}", 1):
            order = np.argsort(keys[:, 0], kind="stable")
            order = order[keys[order, 0] != NO_KEY]
            keys, numbers = keys[order, 0], numbers[order]
            begins = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
            if not leaks:
                begins[1:] |= np.diff(corpus.split_indices(numbers)) > 0
            yield _alike_pairs(numbers, begins, file, threshold)


def _alike_pairs(
    numbers: np.ndarray, begins: np.ndarray, file: Path, threshold: float
) -> np.ndarray:
    """Return the pairs, of `numbers` in runs of equal keys, with similar signatures."""
    indices = np.arange(len(numbers))
    firsts = np.maximum.accumulate(np.where(begins, indices, 0))
    later = np.flatnonzero(firsts < indices)
    like_the_first = begins.copy()
    like_the_first[later] = _alike(numbers[firsts[later]], numbers[later], file, threshold)
    after = [later[like_the_first[later]]]
    before = [firsts[after[0]]]
    for distance in range(1, _WINDOW + 1):
        later = later[later - distance > firsts[later]]
        # Two that are like the first are in its cluster.
        open_pairs = later[~(like_the_first[later] & like_the_first[later - distance])]
        alike = _alike(numbers[open_pairs - distance], numbers[open_pairs], file, threshold)
        after.append(open_pairs[alike])
        before.append(after[-1] - distance)
    return np.stack([numbers[np.concatenate(side)] for side in (before, after)], axis=1)


def _alike(some: np.ndarray, others: np.ndarray, file: Path, threshold: float) -> np.ndarray:
    """Return for each pair of documents whether their signatures agree: bool [pairs]."""
    alike = np.empty(len(some), bool)
    for start in range(0, len(some), _PAIRS):
        pairs = slice(start, start + _PAIRS)
        # Mapped anew each time, so that what was read of it does not stay in memory.
        signatures = np.memmap(file, np.uint8, "r").reshape(-1, HASHES)
        equal = signatures[some[pairs]] == signatures[others[pairs]]
        alike[pairs] = equal.sum(axis=1) >= threshold * HASHES
    return alike


def _join(parents: np.ndarray, pairs: np.ndarray) -> None:
    """Join the clusters of each of `pairs` [links, 2] of documents."""
    while len(pairs):
        roots = _roots(parents, pairs)
        pairs = roots[roots[:, 0] != roots[:, 1]]
        # Each below the smallest that it is linked to; other links wait for the next round.
        np.minimum.at(parents, pairs.max(axis=1), pairs.min(axis=1))


def _roots(parents: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the first document of the cluster of each of `numbers`."""
    roots = parents[numbers]
    while ((above := parents[roots]) != roots).any():
        roots = above
    parents[numbers] = roots
    return roots


def _described(
    corpus: SpooledCorpus, numbers: np.ndarray, firsts: np.ndarray
) -> NearDuplicatesOfSplit:
    """Describe what a split loses: documents `numbers` of clusters that begin with `firsts`."""

    def beginning(number: int) -> tuple[str, str]:
        """Return the beginning of a document, and its split."""
        spool = next(s for s in corpus.spools if s.first <= number < s.numbers.stop)
        (batch,) = spool.read(["text"], np.array([number - spool.first]))
        text = batch.column("text")[0].as_py()
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…", spool.split

    chosen = np.unique(np.arange(_SAMPLES) * len(numbers) // _SAMPLES)[: len(numbers)]
    pairs = zip(numbers[chosen].tolist(), firsts[chosen].tolist(), strict=True)
    samples = [NearDuplicate(beginning(one)[0], *beginning(first)) for one, first in pairs]
    return NearDuplicatesOfSplit(len(np.unique(firsts)), tuple(samples))

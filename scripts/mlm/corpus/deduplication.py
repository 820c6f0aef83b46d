"""Duplicates of documents: exact ones by their digests; and near ones, whose MinHash signatures
share the key of a band and agree in three quarters. Those are linked, and of documents that links
join (union-find, Tarjan 1975), the first stays."""

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
from mlm.corpus.words_and_minhash import BANDS, HASHES, NO_KEY, SIMILAR

#: Pairs whose signatures are in memory together.
_PAIRS = 1 << 16
#: Removed documents that are shown of a split, and characters of each.
_SAMPLES, _SHOWN = 8, 240


def remove_duplicates(corpus: SpooledCorpus, duplicates: bool, leaks: bool) -> None:
    """Remove the `duplicates` (of a split, all but the first), the `leaks` (documents of a split of
    higher precedence), or both."""
    every = range(corpus.documents)
    for digests, numbers in corpus.equal_values("digest", 2, every) if duplicates or leaks else ():
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


def remove_near_duplicates(corpus: SpooledCorpus, leaks: bool, scratch: Path) -> None:
    """Remove all but the first of each cluster, and describe them by split. One that is linked with
    what remains of a split of higher precedence is leaked; without `leaks`, splits are apart."""
    file, splits, parents = scratch / "signatures", {}, np.arange(corpus.documents)
    with open(file, "wb") as stream:
        for spool in corpus.spools:
            spool.values("signature", np.uint8, HASHES).tofile(stream)
    # One after the other, so that no held-out documents are joined by one of train.
    for split in PRECEDENCE:
        spools = corpus.spools_of(split)
        first, stop = spools[0].first, spools[-1].numbers.stop
        compared = range(0 if leaks else first, stop)
        for band in range(BANDS):
            for keys, numbers in corpus.equal_values(f"key{band}", 1, compared):
                pairs = _with_first(keys[:, 0], numbers)
                pairs = pairs[pairs[:, 1] >= first]
                _join(parents, pairs[_alike(pairs, file)])
        numbers = np.arange(first, stop)
        firsts = _roots(parents, numbers)
        numbers, firsts = numbers[firsts != numbers], firsts[firsts != numbers]
        corpus.verdicts[numbers] = np.where(firsts < first, NEAR_LEAKED, NEAR_DUPLICATE)
        splits[split] = _described(corpus, numbers, firsts)
    corpus.near = splits


def _with_first(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return pairs of documents: the first and each other one of those with an equal key."""
    order = np.argsort(keys, kind="stable")
    order = order[keys[order] != NO_KEY]
    keys, numbers, indices = keys[order], numbers[order], np.arange(len(order))
    begins = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
    firsts = np.maximum.accumulate(np.where(begins, indices, 0))
    return np.stack([numbers[firsts], numbers], axis=1)[firsts < indices]


def _alike(pairs: np.ndarray, file: Path) -> np.ndarray:
    """Return for each of `pairs` of documents whether their signatures agree: bool [pairs]."""
    alike = np.empty(len(pairs), bool)
    for start in range(0, len(pairs), _PAIRS):
        # Mapped anew each time, so that what was read of it does not stay in memory.
        signatures = np.memmap(file, np.uint8, "r").reshape(-1, HASHES)
        one, other = signatures[pairs[start : start + _PAIRS].T]
        alike[start : start + _PAIRS] = (one == other).sum(axis=1) >= SIMILAR * HASHES
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

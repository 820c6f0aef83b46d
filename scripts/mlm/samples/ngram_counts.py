"""How often tokens occur, and beside which, in a split: sparse counts in bounded memory."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

#: Tokens of train that are counted (about 3 GB); of a larger split, samples at equal distances.
COUNTED_TOKENS = 30_000_000
#: Keys gathered before they are merged into the counts.
_MERGE_EVERY = 4_000_000


@dataclass(frozen=True)
class ContextCounts:
    """Tokens by context, as sparse rows: row i, of `contexts[i]` (ascending), is
    tokens[starts[i]:starts[i + 1]], with the counts at the same places. A context is a token, or
    two: (nearer) + vocabulary · (farther)."""

    contexts: np.ndarray
    starts: np.ndarray
    tokens: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, counts: np.ndarray, vocabulary: int) -> "ContextCounts":
        """Return the counts of ascending keys, context · vocabulary + token."""
        contexts, tokens = np.divmod(keys, vocabulary)
        contexts, starts = np.unique(contexts, return_index=True)
        return cls(contexts, np.append(starts, len(keys)), tokens.astype(np.int32), counts)


@dataclass(frozen=True)
class TokenCounts:
    """Counts over text tokens: `unigram` [vocabulary]; `beside`, by offset (-1: the left
    neighbour), by the token there; `beside_two`, by side (-1 or 1), by both neighbours. Neighbours
    may be special tokens, and are of the same sequence."""

    unigram: np.ndarray
    beside: dict[int, ContextCounts]
    beside_two: dict[int, ContextCounts]

    @property
    def tokens(self) -> int:
        return int(self.unigram.sum())


def counted_samples(num_samples: int, tokens: int) -> range:
    """Return the samples of a split of so many `tokens` that are counted: every n-th."""
    return range(0, num_samples, max(1, -(-tokens // COUNTED_TOKENS)))


class _Merged:
    """Counts of int64 keys, gathered block by block: sorted keys and their counts."""

    def __init__(self):
        self._keys, self._counts = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._waiting: list[np.ndarray] = []
        self._size = 0

    def add(self, keys: np.ndarray) -> None:
        self._waiting.append(keys)
        self._size += len(keys)
        if self._size >= max(_MERGE_EVERY, len(self._keys)):
            self._merge()

    def _merge(self) -> None:
        keys, counts = np.unique(np.concatenate(self._waiting), return_counts=True)
        self._waiting, self._size = [], 0
        keys = np.concatenate([self._keys, keys])
        counts = np.concatenate([self._counts, counts.astype(np.int32)])
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        self._keys, self._counts = keys[first], np.add.reduceat(counts, first, dtype=np.int32)

    def rows(self, vocabulary: int) -> ContextCounts:
        if self._size:
            self._merge()
        return ContextCounts.of(self._keys, self._counts, vocabulary)


def count_tokens(
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    vocabulary: int,
    special: Iterable[int],
    distance: int = 1,
    two: bool = False,
) -> TokenCounts:
    """Count the tokens of `batches` of (input_ids, attention_mask), each [batch, sequence]: pairs
    up to `distance` on either side; with `two`, both neighbours of each side too."""
    is_text = np.ones(vocabulary, bool)
    is_text[list(special)] = False
    unigram = np.zeros(vocabulary, np.int64)
    beside = {sign * d: _Merged() for d in range(1, distance + 1) for sign in (-1, 1)}
    beside_two = {sign: _Merged() for sign in (-1, 1) if two}
    for ids, mask in batches:
        ids, mask = ids.astype(np.int64), mask.astype(bool)
        text = mask & is_text[ids]
        unigram += np.bincount(ids[text], minlength=vocabulary)
        for offset, pairs in beside.items():
            (near, token), counted = _aligned(ids, mask, text, offset, offset)
            pairs.add((near * vocabulary + token)[counted])
        for sign, triples in beside_two.items():
            (far, near, token), counted = _aligned(ids, mask, text, 2 * sign, sign)
            triples.add(((far * vocabulary + near) * vocabulary + token)[counted])
    return TokenCounts(
        unigram,
        {offset: pairs.rows(vocabulary) for offset, pairs in beside.items()},
        {sign: triples.rows(vocabulary) for sign, triples in beside_two.items()},
    )


def _aligned(
    ids: np.ndarray, mask: np.ndarray, text: np.ndarray, farthest: int, step: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the ids at the offsets `farthest`, …, 0 of each place, and where they count."""
    first, length = max(-farthest, 0), ids.shape[1] - abs(farthest)
    offsets = [*range(farthest, 0, -step), 0]
    places = [slice(first + offset, first + offset + length) for offset in offsets]
    real = np.logical_and.reduce([mask[:, place] for place in places[:-1]])
    return [ids[:, place] for place in places], real & text[:, places[-1]]

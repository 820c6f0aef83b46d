"""Token and neighbour counts of a split, sparse, in bounded memory."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

#: Tokens of train that are counted; of a larger split, samples at equal distances. This bounds the
#: memory of the counts to less than 2 GB.
COUNTED_TOKENS = 50_000_000
#: Pairs gathered before they are merged into the counts.
_MERGE_EVERY = 4_000_000


@dataclass(frozen=True)
class PairCounts:
    """How often each token stood beside each context, as sorted sparse rows.

    Row c is tokens[starts[c]:starts[c + 1]] with the counts at the same places.
    """

    starts: np.ndarray
    tokens: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class TokenCounts:
    """Counts over the text tokens of a split: special tokens and padding are not counted.

    `unigram` [vocabulary]; `after`, tokens by their left neighbour; `before`, tokens by
    their right neighbour. A neighbour may be a special token, and stands in the same
    sequence. `tokens` is the sum of `unigram`.
    """

    unigram: np.ndarray
    after: PairCounts
    before: PairCounts

    @property
    def tokens(self) -> int:
        return int(self.unigram.sum())


class _Merged:
    """Counts of int64 keys, gathered block by block: sorted keys and their counts."""

    def __init__(self):
        self._keys, self._counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._waiting: list[np.ndarray] = []
        self._size = 0

    def add(self, keys: np.ndarray) -> None:
        self._waiting.append(keys)
        self._size += len(keys)
        if self._size >= max(_MERGE_EVERY, len(self._keys)):
            self._merge()

    def _merge(self) -> None:
        keys, counts = np.unique(np.concatenate(self._waiting), return_counts=True)
        keys = np.concatenate([self._keys, keys])
        counts = np.concatenate([self._counts, counts])
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        self._keys, self._counts = keys[first], np.add.reduceat(counts, first)
        self._waiting, self._size = [], 0

    def rows(self, vocabulary: int) -> PairCounts:
        if self._size:
            self._merge()
        contexts, tokens = np.divmod(self._keys, vocabulary)
        starts = np.searchsorted(contexts, np.arange(vocabulary + 1))
        return PairCounts(starts, tokens.astype(np.int32), self._counts)


def count_tokens(
    batches: Iterable[tuple[np.ndarray, np.ndarray]], vocabulary: int, special: Iterable[int]
) -> TokenCounts:
    """TokenCounts of `batches` of (input_ids, attention_mask), each [batch, sequence].

    Memory grows with the number of different pairs, not with the text.
    """
    is_text = np.ones(vocabulary, bool)
    is_text[list(special)] = False
    unigram = np.zeros(vocabulary, np.int64)
    after, before = _Merged(), _Merged()
    for ids, mask in batches:
        ids, mask = ids.astype(np.int64), mask.astype(bool)
        text = mask & is_text[ids]
        unigram += np.bincount(ids[text], minlength=vocabulary)
        left, right = ids[:, :-1], ids[:, 1:]
        pair = mask[:, :-1] & mask[:, 1:]
        kept = pair & text[:, 1:]
        after.add((left * vocabulary + right)[kept])
        kept = pair & text[:, :-1]
        before.add((right * vocabulary + left)[kept])
    return TokenCounts(unigram, after.rows(vocabulary), before.rows(vocabulary))

"""Bigrams and trigrams from both sides: what counting neighbours predicts.

With c(w | l) the count of w after l, D the absolute discount and n the number of different
followers of l (Ney, Essen and Kneser, 1994):

    U(w)       = (c(w) + 1) / (N + V)                        add-one over the text tokens
    L(w | l)   = max(c(w | l) − D, 0) / c(l) + D n(l) / c(l) · U(w)
    R(w | r)   = the same, with the right neighbour
    B(w | l,r) = L(w | l) R(w | r) / U(w) / Z(l, r)          both, taken as independent given w

The bigram is the mixture λ₁U + λ₂L + λ₃R + λ₄B, its weights fitted by expectation
maximisation on the validation split (Jelinek and Mercer, 1980), never on the test split. A
neighbour that is missing or was never counted (the mask token) says nothing: L is then U, and B is
R. The trigram mixes in the same three parts of two neighbours on either side; L(w | l₂,l₁) is
discounted towards L(w | l₁), and is L(w | l₁) if the pair was never seen.

A distribution over the vocabulary is a sparse row, of the tokens seen beside its context, plus a
multiple of U, which alone ranks all other tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mlm.corpus.counts import ContextCounts, TokenCounts
from mlm.evaluation.predictions import NO_NEIGHBOUR, Positions, Ranked
from mlm.foundations.progress_line import Progress


def unigram_probabilities(counts: TokenCounts, special) -> np.ndarray:
    """U(w), float64 [vocabulary]; 0 for special tokens, which are never predicted."""
    seen = counts.unigram.astype(np.float64) + 1
    seen[list(special)] = 0
    return seen / seen.sum()


class _Conditional:
    """Discounted `shares` of the tokens beside each context, sparse [contexts + 1, vocabulary], its
    last row, empty, for contexts never seen; and the `rest` [contexts + 1] left to other tokens."""

    def __init__(self, counted: ContextCounts, vocabulary: int):
        """With the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser."""
        from scipy.sparse import csr_array

        once, twice = (np.count_nonzero(counted.counts == n) for n in (1, 2))
        # Without singletons the estimate is 0, and unseen tokens would get nothing.
        discount = once / (once + 2 * twice) if once and twice else 0.5
        different = np.diff(counted.starts)
        sums = np.concatenate([[0], np.cumsum(counted.counts, dtype=np.int64)])[counted.starts]
        totals = np.diff(sums)
        self._contexts = np.append(counted.contexts, np.iinfo(np.int64).max)
        self.shares = csr_array(
            (
                (counted.counts - discount) / np.repeat(totals, different),
                counted.tokens,
                np.append(counted.starts, counted.starts[-1]),
            ),
            shape=(len(different) + 1, vocabulary),
        )
        self.lengths = np.append(different, 0)
        self.rest = np.append(discount * different / totals, 1.0)

    def rows_of(self, contexts: np.ndarray) -> np.ndarray:
        """Rows of `contexts` [positions]."""
        found = np.searchsorted(self._contexts, contexts)
        return np.where(self._contexts[found] == contexts, found, len(self._contexts) - 1)


@dataclass(frozen=True)
class _Beside:
    """What n pairs of contexts give: L as `left` + `left_rest` · U, R likewise, and L R / U without
    the summands in U, `both`; z is the sum of all L R / U. Sparse [n, vocabulary], and [n]."""

    left: Any
    right: Any
    left_rest: np.ndarray
    right_rest: np.ndarray
    both: Any
    z: np.ndarray


class NeighbourMixture:
    """The two-sided bigram, or trigram, of a split's TokenCounts; see the module's text."""

    def __init__(self, counts: TokenCounts, special, order: int, at_once: int = 250_000):
        """`order` is 2 for the bigram, 3 for the trigram; about `at_once` numbers of sparse rows
        are in memory together."""
        self._at_once = at_once
        self._unigram = unigram_probabilities(counts, special)
        by_frequency = np.argsort(-self._unigram, kind="stable")
        self._falling = self._unigram[by_frequency]
        self._rank = np.empty_like(by_frequency)
        self._rank[by_frequency] = np.arange(len(by_frequency))
        tables = [counts.beside, counts.beside_two][: order - 1]
        self._left, self._right = (
            [_Conditional(t[sign], len(self._unigram)) for t in tables] for sign in (-1, 1)
        )
        self.name = {2: "bigram", 3: "trigram"}[order]
        names = ["unigram", "left", "right", "both", "left_two", "right_two", "both_two"]
        self.components = names[: 3 * order - 2]
        self.weights = np.full(len(self.components), 1 / len(self.components))

    def fit(self, positions: Positions, rounds: int = 50) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        found = np.empty((len(positions), len(self.components)))
        for part, truth, orders in self._parts(positions, f"{self.name} weights"):
            numbers, prior = np.arange(len(truth)), self._unigram[truth]
            components = [prior]
            for beside in orders:
                left = beside.left[numbers, truth] + beside.left_rest * prior
                right = beside.right[numbers, truth] + beside.right_rest * prior
                components += [left, right, left * right / prior / beside.z]
            found[part] = np.stack(components, axis=1)
        for _ in range(rounds):
            shares = self.weights * found
            shares /= shares.sum(axis=1, keepdims=True)
            self.weights = shares.mean(axis=0)

    def scores(self, positions: Positions, label: str) -> Ranked:
        """The mixture's answers; `label` names them in the progress line."""
        of_truth, rank = np.empty(len(positions)), np.empty(len(positions), np.int64)
        for part, truth, orders in self._parts(positions, label):
            left, right, both, rest = 0, 0, 0, np.full(len(truth), self.weights[0])
            for k, beside in enumerate(orders):
                of_left, of_right, of_both = self.weights[1 + 3 * k : 4 + 3 * k]
                of_both = of_both / beside.z
                # What two neighbours were seen with, the nearer one was: the places are the same.
                left = left + _scaled(beside.left, of_left + of_both * beside.right_rest)
                right = right + _scaled(beside.right, of_right + of_both * beside.left_rest)
                both = both + _scaled(beside.both, of_both)
                rest += of_left * beside.left_rest + of_right * beside.right_rest
                rest += of_both * beside.left_rest * beside.right_rest
            mixed = _with(beside.left, left) + _with(beside.right, right) + _with(beside.both, both)
            of_truth[part] = mixed[np.arange(len(truth)), truth] + rest * self._unigram[truth]
            rank[part] = self._ranks(mixed, rest, truth, of_truth[part])
        return Ranked(np.log(of_truth), rank)

    def _ranks(
        self, mixed, rest: np.ndarray, truth: np.ndarray, of_truth: np.ndarray
    ) -> np.ndarray:
        """The ranks of tokens `truth` [n] under `mixed` + `rest` · U, [n, vocabulary] and [n]."""
        tokens, lengths = mixed.indices, np.diff(mixed.indptr)
        probabilities = mixed.data + np.repeat(rest, lengths) * self._unigram[tokens]
        known = np.repeat(of_truth, lengths)
        equal = (probabilities == known) & (tokens < np.repeat(truth, lengths))
        # How many tokens would be ahead if none were in the sparse rows: a prefix of all tokens by
        # frequency. It ends before the true token, whose probability is at least rest · U.
        ahead = np.searchsorted(-self._falling, -of_truth / rest * (1 - 1e-12), side="right")
        ahead = np.minimum(ahead, self._rank[truth])
        among = self._rank[tokens] < np.repeat(ahead, lengths)
        instead = ((probabilities > known) | equal).astype(np.int8) - among
        return 1 + ahead + np.diff(np.append(0, np.cumsum(instead))[mixed.indptr])

    def _parts(self, positions: Positions, label: str) -> Iterator[tuple]:
        """Parts of `positions` whose sparse rows fit in memory together: a slice, the true tokens
        there, and a _Beside for each number of neighbours."""
        left = self._rows(self._left, positions.left)
        right = self._rows(self._right, positions.right)
        sizes = 1 + self._left[0].lengths[left[0]] + self._right[0].lengths[right[0]]
        progress = Progress(label, len(positions), "positions")
        ends = np.flatnonzero(np.diff(np.cumsum(sizes) // self._at_once)) + 1
        for first, last in pairwise([0, *ends.tolist(), len(sizes)]):
            if first < last:
                part = slice(first, last)
                yield part, positions.truth[part], self._beside(left[:, part], right[:, part])
                progress.to(last)

    def _rows(self, tables: list[_Conditional], near: np.ndarray) -> np.ndarray:
        """The rows of each position's neighbours on one side in `tables`, [orders, positions]."""
        near = near.astype(np.int64)
        rows = [tables[0].rows_of(near[:, 0])]
        if len(tables) > 1:
            # Without its nearer neighbour, the farther one says nothing.
            known = (near[:, :2] != NO_NEIGHBOUR).all(axis=1)
            two = near[:, 1] * len(self._unigram) + near[:, 0]
            rows.append(tables[1].rows_of(np.where(known, two, NO_NEIGHBOUR)))
        return np.stack(rows)

    def _beside(self, left: np.ndarray, right: np.ndarray) -> Iterator[_Beside]:
        """What the rows `left` and `right` [orders, n] give, for one neighbour and then for two."""
        found = [(None, np.ones(left.shape[1]))] * 2
        for tables in zip(self._left, self._right, left, right, strict=True):
            for side, (table, rows) in enumerate(zip(tables[:2], tables[2:], strict=True)):
                shorter, rest = found[side]
                own, shares = table.rest[rows], table.shares[rows]
                if shorter is not None:
                    shares = shares + _with(shorter, _scaled(shorter, own))
                found[side] = shares, rest * own
            (on_left, left_rest), (on_right, right_rest) = found
            both = on_left.multiply(on_right)
            both.data /= self._unigram[both.indices]
            z = both.sum(axis=1) + left_rest + right_rest - left_rest * right_rest
            yield _Beside(on_left, on_right, left_rest, right_rest, both, z)


def _scaled(rows, factors: np.ndarray) -> np.ndarray:
    """The numbers of the sparse `rows` [n, vocabulary], each times the factor [n] of its row."""
    return rows.data * np.repeat(factors, np.diff(rows.indptr))


def _with(rows, numbers: np.ndarray):
    """The sparse `rows` with other `numbers` in the same places."""
    return type(rows)((numbers, rows.indices, rows.indptr), shape=rows.shape)

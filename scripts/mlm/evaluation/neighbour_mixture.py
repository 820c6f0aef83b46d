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

A distribution over the vocabulary is a sum of sparse rows, of the tokens seen beside a context,
and of U. The probability of one token therefore needs a few numbers and Z, which is the same
wherever the contexts are, and ranks up to `DEEPEST` need the large numbers of the rows alone: many
positions are scored at once, exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from mlm.corpus.counts import ContextCounts, TokenCounts
from mlm.evaluation.predictions import NO_NEIGHBOUR, Positions, Ranked
from mlm.foundations.progress_line import Progress
from mlm.samples.split_samples import Rows

#: Numbers in the sparse rows of the positions that are scored at once.
_AT_ONCE = 4_000_000
#: Ranks are exact up to here; all beyond are given as one more.
DEEPEST = 5
#: Shares that ranks are made from at first: where these suffice, and elsewhere.
_THRESHOLDS = (1 / 8, 1 / 32)
#: Left, right and both, with one neighbour on either side and with two.
_NAMES = (("left", "right", "both"), ("left_two", "right_two", "both_two"))


def unigram_probabilities(counts: TokenCounts, special) -> np.ndarray:
    """U(w), float64 [vocabulary]; 0 for special tokens, which are never predicted."""
    seen = counts.unigram.astype(np.float64) + 1
    seen[list(special)] = 0
    return seen / seen.sum()


class _Conditional:
    """Discounted `shares` of the tokens beside each context, sparse [contexts + 1, vocabulary], its
    last row, empty, for contexts never seen; and the `rest` [contexts + 1] left to other tokens."""

    def __init__(self, counted: ContextCounts, place: np.ndarray):
        """With the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser; columns by `place`."""
        from scipy.sparse import csr_array

        once, twice = (np.count_nonzero(counted.counts == n) for n in (1, 2))
        # Without singletons the estimate is 0, and unseen tokens would get nothing.
        discount = once / (once + 2 * twice) if once and twice else 0.5
        different = np.diff(counted.starts)
        sums = np.concatenate([[0], np.cumsum(counted.counts, dtype=np.int64)])[counted.starts]
        totals = np.diff(sums)
        self.contexts = counted.contexts
        self.shares = csr_array(
            (
                (counted.counts - discount) / np.repeat(totals, different),
                place[counted.tokens],
                np.append(counted.starts, counted.starts[-1]),
            ),
            shape=(len(different) + 1, len(place)),
        )
        self.shares.sort_indices()
        self.rest = np.append(discount * different / totals, 1.0)

    def rows_of(self, contexts: np.ndarray) -> np.ndarray:
        """Rows of `contexts` [positions]."""
        if not len(self.contexts):
            return np.zeros(len(contexts), np.int64)
        found = np.minimum(np.searchsorted(self.contexts, contexts), len(self.contexts) - 1)
        return np.where(self.contexts[found] == contexts, found, len(self.contexts))

    def between(self, rows: np.ndarray, tokens: np.ndarray, shorter: np.ndarray) -> np.ndarray:
        """P(w | context) of `tokens` in `rows`, from that of a neighbour less; all [n]."""
        # Of a large table SciPy would look at every number to see whether it is sorted.
        shares, at = _used(self.shares, rows)
        return shares[at, tokens] + self.rest[rows] * shorter


@dataclass(frozen=True)
class _Between(Rows):
    """What n contexts say: the rows of their neighbours in the tables, int [n, orders]."""

    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class _Products:
    """What both sides of n contexts say together, by (order on the left, order on the right).

    `shares` are sparse rows of L R / U, each divided by its sum, with the row of each context [n];
    `sums` are these sums, [n]. `z` is [n, orders].
    """

    shares: dict[tuple[int, int], tuple]
    sums: dict[tuple[int, int], np.ndarray]
    z: np.ndarray


class NeighbourMixture:
    """The two-sided bigram, or trigram, of a split's TokenCounts; see the module's text."""

    def __init__(self, counts: TokenCounts, special, order: int):
        """`order` is 2 for the bigram, 3 for the trigram."""
        unigram = unigram_probabilities(counts, special)
        # Columns are tokens by frequency, so that the frequent ones come first.
        self._tokens = np.argsort(-unigram, kind="stable").astype(np.int32)
        self._place = np.empty_like(self._tokens)
        self._place[self._tokens] = np.arange(len(unigram), dtype=np.int32)
        self._unigram = unigram[self._tokens]
        tables = [counts.beside, counts.beside_two][: order - 1]
        self._left, self._right = (
            [_Conditional(t[sign], self._place) for t in tables] for sign in (-1, 1)
        )
        self.name = {2: "bigram", 3: "trigram"}[order]
        self.components = ["unigram", *(name for names in _NAMES[: order - 1] for name in names)]
        self.weights = np.full(len(self.components), 1 / len(self.components))

    def fit(self, positions: Positions, rounds: int = 50) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        found = np.empty((len(positions), len(self.components)))
        for chosen, between in self._parts(positions, f"{self.name} weights"):
            truth = self._place[positions.truth[chosen]]
            z = self._products(between).z
            found[chosen] = self._components(between, z, truth).T
        for _ in range(rounds):
            shares = self.weights * found
            shares /= shares.sum(axis=1, keepdims=True)
            self.weights = shares.mean(axis=0)

    def scores(self, positions: Positions, label: str) -> Ranked:
        """The mixture's answers; `label` names them in the progress line."""
        of_truth, rank = np.empty(len(positions)), np.empty(len(positions), np.int64)
        for chosen, between in self._parts(positions, label):
            truth = self._place[positions.truth[chosen]]
            products = self._products(between)
            of_truth[chosen] = self._mixed(self._components(between, products.z, truth))
            rank[chosen] = self._ranks(between, products, truth, of_truth[chosen])
        return Ranked(np.log(of_truth), rank)

    def _parts(self, positions: Positions, label: str) -> Iterator[tuple[np.ndarray, _Between]]:
        """Parts of `positions` whose products fit in memory together, each with its contexts.

        Positions between the same two neighbours are adjacent, so their product is made once.
        """
        between = _Between(
            self._rows(self._left, positions.left), self._rows(self._right, positions.right)
        )
        order = np.lexsort((between.right[:, 0], between.left[:, 0]))
        between = between[order]
        sizes = np.full(len(order), len(self.components))
        left, right = (
            [np.diff(t.shares.indptr)[r] for t, r in zip(tables, rows.T, strict=True)]
            for tables, rows in ((self._left, between.left), (self._right, between.right))
        )
        for i, j in _pairs(len(self._left)):
            first, _ = _distinct(between.left[:, i], between.right[:, j])
            sizes[first] += np.minimum(left[i][first], right[j][first])
        progress = Progress(label, len(order), "positions")
        for first, last in _cut(sizes):
            yield order[first:last], between[first:last]
            progress.to(last)

    def _rows(self, tables: list[_Conditional], near: np.ndarray) -> np.ndarray:
        """The rows of each position's neighbours on one side in `tables`, [positions, orders]."""
        near = near.astype(np.int64)
        rows = [tables[0].rows_of(near[:, 0])]
        if len(tables) > 1:
            # Without its nearer neighbour, the farther one says nothing.
            known = (near[:, :2] != NO_NEIGHBOUR).all(axis=1)
            two = near[:, 1] * len(self._tokens) + near[:, 0]
            rows.append(tables[1].rows_of(np.where(known, two, NO_NEIGHBOUR)))
        return np.stack(rows, axis=1)

    def _products(self, between: _Between) -> _Products:
        shares, sums, z = {}, {}, []
        for i, j in _pairs(len(self._left)):
            left, right = self._left[i].shares, self._right[j].shares
            first, of = _distinct(between.left[:, i], between.right[:, j])
            table, row = self._product(left, between.left[first, i], right, between.right[first, j])
            totals = table.sum(axis=1)
            table.data /= np.repeat(np.where(totals > 0, totals, 1), np.diff(table.indptr))
            shares[i, j], sums[i, j] = (table, row[of]), totals[row[of]]
        for (left, of_left), (right, of_right) in self._by_order(between):
            both = sum(left[i] * right[j] * sums[i, j] for i, j in _pairs(len(left)))
            z.append(both + of_left + of_right - of_left * of_right)
        return _Products(shares, sums, np.stack(z, axis=1))

    def _by_order(self, between: _Between) -> Iterator[tuple]:
        """For each order, left and right: the factors [n] of the rows of up to that order, and
        of U, in P(w | the neighbours on that side)."""
        sides = []
        for tables, rows in ((self._left, between.left), (self._right, between.right)):
            factors, rest, found = [], np.ones(len(rows)), []
            for table, row in zip(tables, rows.T, strict=True):
                left_over = table.rest[row]
                factors = [*(f * left_over for f in factors), np.ones(len(rows))]
                rest = rest * left_over
                found.append((factors, rest))
            sides.append(found)
        return zip(*sides, strict=True)

    def _product(self, left, left_rows, right, right_rows):
        """left[left_rows] · right[right_rows] / U as sparse rows, and the row of each pair.

        They hold the tokens of the shorter row of each pair, some with 0.
        """
        from scipy.sparse import csr_array

        shorter = np.diff(left.indptr)[left_rows] < np.diff(right.indptr)[right_rows]
        parts, numbers = [], []
        for chosen, short, rows, long, others in (
            (shorter, left, left_rows, right, right_rows),
            (~shorter, right, right_rows, left, left_rows),
        ):
            chosen = np.flatnonzero(chosen)
            chosen = chosen[np.argsort(others[chosen], kind="stable")]
            part = short[rows[chosen]]
            part.data *= _looked_up(long, others[chosen], part) / self._unigram[part.indices]
            parts.append(part)
            numbers.append(chosen)
        first, second = parts
        both = csr_array(
            (
                np.concatenate([first.data, second.data]),
                np.concatenate([first.indices, second.indices]),
                np.concatenate([first.indptr, second.indptr[1:] + first.indptr[-1]]),
            ),
            shape=(len(left_rows), left.shape[1]),
        )
        return both, np.argsort(np.concatenate(numbers))

    def _components(self, between: _Between, z: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """What each component gives tokens [n], one between each, [components, n]."""
        prior = self._unigram[tokens]
        parts, left, right = [prior], prior, prior
        for k, (on_left, on_right) in enumerate(zip(self._left, self._right, strict=True)):
            left = on_left.between(between.left[:, k], tokens, left)
            right = on_right.between(between.right[:, k], tokens, right)
            parts += [left, right, left * right / (prior * z[:, k])]
        return np.stack(parts)

    def _mixed(self, parts: np.ndarray) -> np.ndarray:
        """Σ weight · component [n]; added in one order, so that equals stay equal."""
        return (self.weights[:, None] * parts).sum(axis=0)

    def _rows_of_shares(self, between: _Between, products: _Products) -> tuple[list, np.ndarray]:
        """The mixture as Σ factor · row + rest · U: (sparse table, row [n], factor [n]) of each
        summand, and the rest [n]."""
        n, orders = products.z.shape
        left, right = np.zeros((2, orders, n))
        both = {key: np.zeros(n) for key in products.shares}
        rest = np.full(n, self.weights[0])
        for k, ((ahead, of_left), (behind, of_right)) in enumerate(self._by_order(between)):
            on_left, on_right, together = self.weights[1 + 3 * k : 4 + 3 * k]
            together = together / products.z[:, k]
            for i in range(k + 1):
                left[i] += ahead[i] * (on_left + together * of_right)
                right[i] += behind[i] * (on_right + together * of_left)
            for i, j in _pairs(k + 1):
                both[i, j] += together * ahead[i] * behind[j] * products.sums[i, j]
            rest += on_left * of_left + on_right * of_right + together * of_left * of_right
        found = []
        for tables, rows, factors in (
            (self._left, between.left, left),
            (self._right, between.right, right),
        ):
            for table, row, factor in zip(tables, rows.T, factors, strict=True):
                found.append((*_used(table.shares, row), factor))
        return found + [(*products.shares[key], both[key]) for key in both], rest

    def _ranks(
        self, between: _Between, products: _Products, truth: np.ndarray, of_truth: np.ndarray
    ) -> np.ndarray:
        """Ranks up to DEEPEST, by the threshold algorithm of Fagin, Lotem and Naor (2003).

        Tokens to which no row gives a threshold have a bounded probability. If the true one has
        more, all ahead of it are among the others; else DEEPEST may be, or the threshold falls.
        """
        rows, rest = self._rows_of_shares(between, products)
        factor = sum(f for _, _, f in rows)
        # So that no rounding error matters.
        low, high = of_truth * (1 - 1e-9), of_truth * (1 + 1e-9)
        rank = np.zeros(len(truth), np.int64)
        threshold = _THRESHOLDS[0]
        most = [(_above(table, _THRESHOLDS[1]), *at) for table, *at in rows]
        while not rank.all():
            complete = ~(threshold * (factor + rest) > low)
            chosen = (rank == 0) & (complete | (threshold <= _THRESHOLDS[1]))
            chosen = np.flatnonzero(chosen)
            if threshold < _THRESHOLDS[1]:
                found = [(*_used(table, row[chosen]), f[chosen]) for table, row, f in rows]
            else:
                found = [(table, row[chosen], f[chosen]) for table, row, f in most]
            for part, of, tokens, known, by in self._candidates(found, threshold):
                places = chosen[part]
                at = places[of]
                known += rest[at] * self._unigram[tokens]
                surely = known > high[at]
                ahead = np.bincount(of[surely], minlength=len(places))
                open_ = complete[places] & (ahead < DEEPEST)
                asked = ~surely & open_[of]
                asked &= known + threshold * (factor[at] - by) >= low[at]
                of, at, tokens = of[asked], at[asked], tokens[asked]
                p = self._mixed(self._components(between[at], products.z[at], tokens))
                higher = p > of_truth[at]
                higher |= (p == of_truth[at]) & (self._tokens[tokens] < self._tokens[truth[at]])
                ahead += np.bincount(of[higher], minlength=len(places))
                done = complete[places] | (ahead >= DEEPEST)
                rank[places[done]] = 1 + np.minimum(ahead[done], DEEPEST)
            threshold /= 4
        return rank

    def _candidates(self, rows: list, threshold: float) -> Iterator[tuple]:
        """Every token to which a row, or the unigram, gives `threshold` or more, part by part.

        Gives (part, of, tokens, known, by): a slice of the n contexts of `rows`; and for each token
        its context's place in the slice, the token, what those rows add, and their factors' sum.
        """
        width = len(self._tokens)
        frequent = np.arange(np.count_nonzero(self._unigram >= threshold))
        rows = [(_above(table, threshold), row, factor) for table, row, factor in rows]
        sizes = sum(np.diff(table.indptr)[row] for table, row, _ in rows) + len(frequent)
        for first, last in _cut(sizes):
            of = np.arange(last - first) * width
            keys = [np.repeat(of, len(frequent)) + np.tile(frequent, len(of))]
            known = [np.zeros((2, len(keys[0])))]
            for table, row, factor in rows:
                part = table[row[first:last]]
                lengths = np.diff(part.indptr)
                by = np.repeat(factor[first:last], lengths)
                keys.append(np.repeat(of, lengths) + part.indices)
                known.append(np.stack([by * part.data, by]))
            keys, known = np.concatenate(keys), np.concatenate(known, axis=1)
            # Each row and so each list is sorted already.
            order = np.argsort(keys, kind="stable")
            keys, known = keys[order], known[:, order]
            starts = np.flatnonzero(_changes(keys))
            known = np.add.reduceat(known, starts, axis=1)
            yield slice(first, last), *np.divmod(keys[starts], width), *known


def _used(table, rows: np.ndarray) -> tuple:
    """The sparse table of `rows` [n] without repeats, and where each of them stands in it."""
    different, at = np.unique(rows, return_inverse=True)
    return table[different], at


def _above(table, threshold: float):
    """The sparse table without the numbers below `threshold`."""
    from scipy.sparse import csr_array

    kept = table.data >= threshold
    starts = np.concatenate([[0], np.cumsum(kept)])[table.indptr]
    return csr_array((table.data[kept], table.indices[kept], starts), shape=table.shape)


def _looked_up(table, rows: np.ndarray, asked) -> np.ndarray:
    """What `table` holds in the rows `rows`, ascending, at the places of the sparse `asked`."""
    width, found = table.shape[1], np.empty(asked.nnz)
    new = _changes(rows)
    different, number = rows[new], np.cumsum(new) - 1
    block = max(1, _AT_ONCE // 8 // width)
    dense = np.zeros(min(block, len(different)) * width)
    for first in range(0, len(different), block):
        low, high = np.searchsorted(number, [first, first + block])
        part = slice(asked.indptr[low], asked.indptr[high])
        at = np.repeat((number[low:high] - first) * width, np.diff(asked.indptr[low : high + 1]))
        filled = table[different[first : first + block]]
        places = np.repeat(np.arange(filled.shape[0]) * width, np.diff(filled.indptr))
        places += filled.indices
        dense[places] = filled.data
        found[part] = dense[at + asked.indices[part]]
        dense[places] = 0
    return found


def _pairs(orders: int) -> list[tuple[int, int]]:
    """(order on the left, order on the right)."""
    return list(product(range(orders), repeat=2))


def _distinct(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each pair of two columns of numbers stands first, and the number of each row's."""
    key = left * (right.max(initial=0) + 1) + right
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return first, of


def _changes(rows: np.ndarray) -> np.ndarray:
    """Where a number differs from the one before it, and at the first, bool [n]."""
    changed = np.ones(len(rows), bool)
    changed[1:] = rows[1:] != rows[:-1]
    return changed


def _cut(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """(first, last) of parts whose sizes add up to about `_AT_ONCE`."""
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
    return pairwise([0, *ends.tolist(), len(sizes)])

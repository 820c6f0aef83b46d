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

A distribution over the vocabulary is a sum of sparse rows, of the tokens seen beside a context, and
of U. One token's probability needs a few numbers, and low ranks the largest numbers alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from mlm.evaluation.predictions import NO_NEIGHBOUR, Positions, Ranked
from mlm.foundations.progress_line import Progress
from mlm.samples.token_counts import ContextCounts, TokenCounts

#: Ranks are exact up to here; all beyond are given as one more.
DEEPEST = 5
#: What each mixture is made of.
COMPONENTS = {
    "bigram": ["unigram", "left", "right", "both"],
    "trigram": ["unigram", "left", "right", "both", "left_two", "right_two", "both_two"],
}
#: Shares from here on suffice for most ranks.
_LARGE = 1 / 64
#: Of expectation maximisation.
_ROUNDS = 50


def unigram_probabilities(counts: TokenCounts, special) -> np.ndarray:
    """U(w), float64 [vocabulary]; 0 for special tokens, which are never predicted."""
    seen = counts.unigram.astype(np.float64) + 1
    seen[list(special)] = 0
    return seen / seen.sum()


class _Shares:
    """Sparse rows [rows, vocabulary] with their `sums`: `all` numbers, and the `large` ones."""

    def __init__(self, numbers: np.ndarray, tokens: np.ndarray, starts: np.ndarray, width: int):
        from scipy.sparse import csr_array

        lengths = np.diff(starts)
        rows, shape = len(lengths), (len(lengths), width)
        self.sums = np.bincount(np.repeat(np.arange(rows), lengths), numbers, rows)
        # Of int64 SciPy would make copies of all: there are fewer than 2^31.
        starts = starts.astype(np.int32)
        self.all = csr_array((numbers, tokens, starts), shape=shape)
        large = np.flatnonzero(numbers >= np.repeat(_LARGE * self.sums, lengths))
        starts = np.searchsorted(large, starts).astype(np.int32)
        self.large = csr_array((numbers[large], tokens[large], starts), shape=shape)


class _Conditionals(_Shares):
    """Discounted shares of the tokens beside each context of several tables, and the `rest` [rows]
    left to other tokens. The last row, empty, is for contexts never seen."""

    def __init__(self, tables: Sequence[ContextCounts], width: int):
        """With the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser."""
        tokens, rest, first = np.concatenate([t.tokens for t in tables]), [], 0
        # One more of each share and key, for what is nowhere.
        self._shares = np.zeros(len(tokens) + 1)
        for counted in tables:
            once, twice = (np.count_nonzero(counted.counts == n) for n in (1, 2))
            # Without singletons the estimate is 0, and unseen tokens would get nothing.
            discount = once / (once + 2 * twice) if once and twice else 0.5
            lengths = np.diff(counted.starts)
            totals = np.add.reduceat(counted.counts, counted.starts[:-1], dtype=np.int64)
            own = self._shares[first : first + len(counted.counts)]
            np.divide(counted.counts - discount, np.repeat(totals, lengths), out=own)
            rest.append(discount * lengths / totals)
            first += len(own)
        self.rest = np.concatenate([*rest, [1.0]])
        self.lengths = np.concatenate([*(np.diff(counted.starts) for counted in tables), [0]])
        super().__init__(self._shares[:-1], tokens, np.append(0, np.cumsum(self.lengths)), width)
        self._last, self._width = np.iinfo(np.int64).max, width
        self._contexts = [np.append(counted.contexts, self._last) for counted in tables]
        self._first = np.cumsum([0, *map(len, rest)])
        begins = np.append(np.arange(len(self.lengths)) * width, self._last)
        self._keys = np.repeat(begins, np.append(self.lengths, 1))
        self._keys[:-1] += tokens

    def rows_of(self, table: int, contexts: np.ndarray) -> np.ndarray:
        """Rows of `contexts` [n] of the table of that number."""
        known = self._contexts[table]
        found = np.searchsorted(known, contexts)
        return np.where(known[found] == contexts, self._first[table] + found, self._first[-1])

    def shares_of(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The shares of `tokens` [n] in `rows` [n]."""
        keys = rows * self._width + tokens
        found = np.searchsorted(self._keys, keys)
        return np.where(self._keys[found] == keys, self._shares[found], 0)

    def looked_up(self, rows: np.ndarray, asked, at_once: int) -> np.ndarray:
        """The shares in `rows`, ascending, at the places of the sparse `asked`."""
        width, found = self._width, np.empty(asked.nnz)
        new = np.diff(rows, prepend=-1) != 0
        different, number = rows[new], np.cumsum(new) - 1
        block = max(1, at_once // width)
        dense = np.zeros(min(block, len(different)) * width)
        for first in range(0, len(different), block):
            filled = self.all[different[first : first + block]]
            places = np.repeat(np.arange(filled.shape[0]) * width, np.diff(filled.indptr))
            places += filled.indices
            dense[places] = filled.data
            low, high = np.searchsorted(number, [first, first + block])
            part = slice(asked.indptr[low], asked.indptr[high])
            lengths = np.diff(asked.indptr[low : high + 1])
            at = np.repeat((number[low:high] - first) * width, lengths)
            found[part] = dense[at + asked.indices[part]]
            dense[places] = 0
        return found


@dataclass(frozen=True)
class _Between:
    """What the neighbours of n positions say. With S₀ = U and Sᵢ the shares of i neighbours, in
    `rows` [sides, i, n], a distribution is Σ `factors` · Sᵢ; `products` are those of shares of both
    sides over U, with the row of each position, by i; `z` is the sum of all L R / U."""

    rows: np.ndarray
    factors: list[list[list[np.ndarray]]]
    products: dict[tuple[int, int], tuple[_Shares, np.ndarray]]
    z: list[np.ndarray]


class NeighbourMixtures:
    """The two-sided bigram and, if triples were counted, the trigram; see the module's text."""

    def __init__(self, counts: TokenCounts, special, at_once: int = 1_000_000):
        """About `at_once` shares are in memory together."""
        self._at_once, self._unigram = at_once, unigram_probabilities(counts, special)
        self._by_frequency = np.argsort(-self._unigram, kind="stable")
        self._rising = -self._unigram[self._by_frequency]
        tables = [
            table[sign] for sign in (-1, 1) for table in (counts.beside, counts.beside_two) if table
        ]
        self._orders, self._seen = len(tables) // 2, _Conditionals(tables, len(self._unigram))
        self.weights = {
            name: np.full(len(parts), 1 / len(parts))
            for name, parts in list(COMPONENTS.items())[: self._orders]
        }

    def fit(self, positions: Positions) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        found = np.empty((len(positions), 1 + 3 * self._orders))
        for chosen, between in self._parts(positions, "baseline weights"):
            places = np.arange(len(chosen))
            found[chosen] = self._components(between, places, positions.truth[chosen]).T
        for name, weights in self.weights.items():
            for _ in range(_ROUNDS):
                shares = weights * found[:, : len(weights)]
                shares /= shares.sum(axis=1, keepdims=True)
                weights = shares.mean(axis=0)
            self.weights[name] = weights

    def scores(self, positions: Positions, label: str) -> dict[str, Ranked]:
        """The answers by mixture, ranks only up to DEEPEST + 1; `label` names the progress line."""
        shape = len(self.weights), len(positions)
        log_probability, rank = np.empty(shape), np.empty(shape, np.int64)
        for chosen, between in self._parts(positions, label):
            truth = positions.truth[chosen]
            components = self._components(between, np.arange(len(truth)), truth)
            for i, weights in enumerate(self.weights.values()):
                known = _mixed(weights, components)
                log_probability[i, chosen] = np.log(known)
                rank[i, chosen] = self._ranks(between, weights, truth, known)
        return dict(zip(self.weights, map(Ranked, log_probability, rank), strict=True))

    def log_probabilities(self, positions: Positions) -> np.ndarray:
        """What the first mixture, the bigram, gives the true tokens in nats, float64 [positions]; 0
        for special tokens, which are never predicted."""
        found, asked = np.zeros(len(positions)), np.flatnonzero(self._unigram[positions.truth])
        weights, positions = next(iter(self.weights.values())), positions[asked]
        for chosen, between in self._parts(positions, "bigram"):
            truth = positions.truth[chosen]
            components = self._components(between, np.arange(len(truth)), truth)
            found[asked[chosen]] = np.log(_mixed(weights, components))
        return found

    def _parts(self, positions: Positions, label: str) -> Iterator[tuple[np.ndarray, _Between]]:
        """Parts of `positions` that fit in memory, adjacent between the same two neighbours."""
        rows = []
        for near in (positions.left.astype(np.int64), positions.right.astype(np.int64)):
            # Without its nearer neighbour, the farther one says nothing.
            known = (near[:, :2] != NO_NEIGHBOUR).all(axis=1)
            two = np.where(known, near[:, 1] * len(self._unigram) + near[:, 0], NO_NEIGHBOUR)
            for contexts in (near[:, 0], two)[: self._orders]:
                rows.append(self._seen.rows_of(len(rows), contexts))
        order = np.lexsort((rows[self._orders], rows[0]))
        rows = np.stack(rows)[:, order].reshape(2, self._orders, len(order))
        lengths = self._seen.lengths[rows]
        sizes = 100 + sum(np.minimum(left, right) for left, right in product(*lengths))
        ends = np.flatnonzero(np.diff(np.cumsum(sizes) // self._at_once)) + 1
        progress = Progress(label, len(order), "positions")
        for first, last in pairwise([0, *ends.tolist(), len(order)]):
            if first < last:
                yield order[first:last], self._between(rows[:, :, first:last])
                progress.to(last)

    def _between(self, rows: np.ndarray) -> _Between:
        orders, factors = range(self._orders), []
        for own in self._seen.rest[rows]:
            factors.append(
                [[np.prod(own[i : k + 1], axis=0) for i in range(k + 2)] for k in orders]
            )
        products = {(i + 1, 0): (self._seen, rows[0, i]) for i in orders}
        products |= {(0, j + 1): (self._seen, rows[1, j]) for j in orders}
        for i, j in product(orders, repeat=2):
            products[i + 1, j + 1] = self._product(rows[0, i], rows[1, j])
        sums = {ij: shares.sums[row] for ij, (shares, row) in products.items()} | {(0, 0): 1}
        z = [
            sum(
                left[i] * right[j] * total
                for (i, j), total in sums.items()
                if max(i, j) < len(left)
            )
            for left, right in zip(*factors, strict=True)
        ]
        return _Between(rows, factors, products, z)

    def _product(self, left: np.ndarray, right: np.ndarray) -> tuple[_Shares, np.ndarray]:
        """Products of the shares in rows `left` and `right` [n] over U, and the row of each."""
        seen = self._seen
        pairs, of = np.unique(left * len(seen.lengths) + right, return_inverse=True)
        left, right = np.divmod(pairs, len(seen.lengths))
        # The tokens of the shorter row are looked up in the longer one.
        shorter = seen.lengths[left] < seen.lengths[right]
        short, long = np.where(shorter, (left, right), (right, left))
        order = np.argsort(long, kind="stable")
        part = seen.all[short[order]]
        part.data *= seen.looked_up(long[order], part, self._at_once)
        known = np.flatnonzero(part.data)
        numbers, starts = part.data[known], np.searchsorted(known, part.indptr)
        tokens = part.indices[known]
        numbers /= self._unigram[tokens]
        return _Shares(numbers, tokens, starts, part.shape[1]), np.argsort(order)[of]

    def _components(self, between: _Between, at: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """What each component gives `tokens` [m] at the positions `at` [m], [components, m]."""
        prior = self._unigram[tokens]
        shares = [
            [prior, *(self._seen.shares_of(row[at], tokens) for row in side)]
            for side in between.rows
        ]
        parts = [prior]
        for *factors, z in zip(*between.factors, between.z, strict=True):
            left, right = (
                sum(factor[at] * share for factor, share in zip(*side, strict=False))
                for side in zip(factors, shares, strict=True)
            )
            parts += [left, right, left * right / (prior * z[at])]
        return np.stack(parts)

    def _ranks(self, between: _Between, weights, truth, known) -> np.ndarray:
        """Ranks, up to DEEPEST + 1, of `truth` [n], whose probabilities are `known` [n]."""
        # The mixture is Σ factor · shares + rest · U.
        factors = defaultdict(float, {(0, 0): weights[0]})
        for k in range(len(weights) // 3):
            of_left, of_right, of_both = weights[1 + 3 * k : 4 + 3 * k]
            left, right = (enumerate(side[k]) for side in between.factors)
            for (i, on_left), (j, on_right) in product(left, right):
                factors[i, j] += of_both / between.z[k] * on_left * on_right
                factors[i, j] += (j == 0) * of_left * on_left + (i == 0) * of_right * on_right
        rest = factors.pop((0, 0))
        summands = [(*between.products[ij], factor) for ij, factor in factors.items()]
        low, high, width = known * (1 - 1e-9), known * (1 + 1e-9), len(self._unigram)
        # A token ahead has an eighth of the probability from U, or `least` of some row's sum.
        frequent = np.searchsorted(self._rising, -low / (8 * rest), side="right")
        most = sum(factor * shares.sums[row] for shares, row, factor in summands)
        least = 7 / 8 * low / np.maximum(most, 1e-300)
        rank = np.full(len(truth), DEEPEST + 1)
        open_ = np.searchsorted(self._rising, -high / rest) < DEEPEST
        for kind, smallest in (("large", _LARGE), ("all", 0)):
            asked = np.flatnonzero(open_)
            counts = frequent[asked, np.newaxis]
            at, places = np.nonzero(np.arange(counts.max(initial=0)) < counts)
            keys = [asked[at] * width + self._by_frequency[places]]
            for shares, row, factor in summands:
                part = getattr(shares, kind)[row[asked]]
                at = np.repeat(asked, np.diff(part.indptr))
                alone = part.data * factor[at] + rest[at] * self._unigram[part.indices]
                open_ &= np.bincount(at[alone > high[at]], minlength=len(truth)) < DEEPEST
                kept = np.flatnonzero(part.data >= (least * shares.sums[row])[at])
                keys.append(at[kept] * width + part.indices[kept])
            decided, keys = open_ & (least >= smallest), np.concatenate(keys)
            at, tokens = np.divmod(np.unique(keys[decided[keys // width]]), width)
            probabilities = _mixed(weights, self._components(between, at, tokens))
            higher = probabilities > known[at]
            higher |= (probabilities == known[at]) & (tokens < truth[at])
            ahead = np.bincount(at[higher], minlength=len(truth))
            rank[decided] = 1 + np.minimum(ahead[decided], DEEPEST)
            open_ &= ~decided
        return rank


def _mixed(weights: np.ndarray, components: np.ndarray) -> np.ndarray:
    """The mixture of the first of `components`, added in one order, so that equals are equal."""
    return sum(weight * part for weight, part in zip(weights, components, strict=False))

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

Whether the true token is the most probable one is mostly settled by a few likely ones, of which one
is more probable; the whole vocabulary is compared where none is.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mlm.evaluation.hidden_sets import NO_NEIGHBOUR, Answers, Positions
from mlm.foundations.terminal import Progress
from mlm.samples.ngram_counts import ContextCounts, TokenCounts

#: What each mixture is made of.
COMPONENTS = {
    "bigram": ["unigram", "left", "right", "both"],
    "trigram": ["unigram", "left", "right", "both", "left_two", "right_two", "both_two"],
}
#: Positions in a block, blocks at a time, and probabilities of a component in memory for each.
_BLOCK, _THREADS, _CELLS = 2**10, 2, 2**17
#: Of expectation maximisation.
_ROUNDS = 50


class _Conditionals:
    """Discounted shares of the tokens beside each context of a table, as sparse rows; the share
    `rest` [rows] left to other tokens, and the `likeliest` token of each row. The last row, empty,
    is for contexts never seen."""

    def __init__(self, counted: ContextCounts, unigram: np.ndarray):
        """With the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser."""
        from scipy.sparse import csr_array

        once, twice = (np.count_nonzero(counted.counts == n) for n in (1, 2))
        # Without singletons the estimate is 0, and unseen tokens would get nothing.
        discount = once / (once + 2 * twice) if once and twice else 0.5
        first, lengths = counted.starts[:-1], np.diff(counted.starts)
        totals = np.add.reduceat(counted.counts, first, dtype=np.int64)
        shares = (counted.counts - discount) / np.repeat(totals, lengths)
        # Of int64 SciPy would make copies of all: there are fewer than 2^31.
        starts = np.append(counted.starts, counted.starts[-1]).astype(np.int32)
        shape = len(lengths) + 1, len(unigram)
        self.shares = csr_array((shares, counted.tokens, starts), shape=shape)
        self._values, self._vocabulary = shares, len(unigram)
        self.rest = np.append(discount * lengths / totals, 1.0)
        self._contexts = np.append(counted.contexts, np.iinfo(np.int64).max)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        self._keys = np.append(rows * len(unigram) + counted.tokens, np.iinfo(np.int64).max)
        highest = np.flatnonzero(shares == np.repeat(np.maximum.reduceat(shares, first), lengths))
        highest = highest[np.unique(rows[highest], return_index=True)[1]]
        self.likeliest = np.append(counted.tokens[highest], np.argmax(unigram))

    def rows(self, contexts: np.ndarray) -> np.ndarray:
        """The rows of `contexts` [n]."""
        rows = np.searchsorted(self._contexts, contexts)
        return np.where(self._contexts[rows] == contexts, rows, len(self.rest) - 1)

    def write(self, rows: np.ndarray, tokens: np.ndarray | None, out: np.ndarray) -> None:
        """Write the shares of `tokens` [n, k], or of all, in `rows` [n] to `out`."""
        if tokens is None:
            self.shares[rows].toarray(out=out)
            return
        keys = rows[:, np.newaxis] * self._vocabulary + tokens
        places = np.searchsorted(self._keys, keys)
        known = self._keys[places] == keys
        out[:] = np.where(known, self._values[np.where(known, places, 0)], 0)


class NeighbourMixtures:
    """The two-sided bigram and, if triples were counted, the trigram; see the module's text."""

    def __init__(self, counts: TokenCounts, special: Sequence[int]):
        self._smoothed = counts.unigram.astype(np.float64) + 1
        self._smoothed[list(special)] = 0
        # U(w), 0 for special tokens, which are never predicted.
        self.unigram = self._smoothed / self._smoothed.sum()
        # By the number of neighbours: those on the left, and those on the right.
        self._tables = [
            (_Conditionals(table[-1], self.unigram), _Conditionals(table[1], self.unigram))
            for table in (counts.beside, counts.beside_two)
            if table
        ]
        is_text = self.unigram > 0
        self._inverse = np.divide(1, self.unigram, out=np.zeros(len(is_text)), where=is_text)
        self.weights = {
            name: np.full(len(parts), 1 / len(parts))
            for name, parts in list(COMPONENTS.items())[: len(self._tables)]
        }

    def unigram_answers(self, truth: np.ndarray, counted: np.ndarray | int = 0) -> Answers:
        """The unigram's answers for the true ids `truth` [positions]; a token that was `counted`
        itself (1 or True) is predicted from the counts of all others."""
        shares = (self._smoothed[truth] - counted) / (self._smoothed.sum() - counted)
        return Answers(np.log(shares), truth == np.argmax(self.unigram))

    def fit(self, positions: Positions) -> None:
        """Set the weights by expectation maximisation on `positions`."""

        def of_truth(block: Positions) -> np.ndarray:
            return self._components(*self._look_up(block), block.truth[:, np.newaxis])[..., 0]

        likelihoods = np.hstack(self._of_blocks(of_truth, positions, "baseline weights")).T
        for name, weights in self.weights.items():
            for _ in range(_ROUNDS):
                shares = weights * likelihoods[:, : len(weights)]
                shares /= shares.sum(axis=1, keepdims=True)
                weights = shares.mean(axis=0)
            self.weights[name] = weights

    def scores(self, positions: Positions, label: str, orders: int = 2) -> dict[str, Answers]:
        """The answers by mixture, of the first `orders`; `label` names the progress line."""
        size = max(1, _CELLS // len(self.unigram))

        def answers(block: Positions) -> tuple[np.ndarray, np.ndarray]:
            (rows, norms), truth = self._look_up(block, orders), block.truth[:, np.newaxis]
            tables = [table for pair in self._tables[:orders] for table in pair]
            likely = [
                t.likeliest[row]
                for t, row in zip(tables, rows.reshape(-1, len(block)), strict=True)
            ]
            likely = np.column_stack([np.full(len(block), np.argmax(self.unigram)), *likely])
            tokens = np.column_stack([truth, likely])
            mixtures = self._mixtures(self._components(rows, norms, tokens))
            of_truth, others = mixtures[..., :1], mixtures[..., 1:]
            is_ahead = (others > of_truth) | ((others == of_truth) & (likely < truth))
            correct = ~is_ahead.any(axis=-1)
            undecided = np.flatnonzero(correct.any(axis=0))
            for start in range(0, len(undecided), size):
                chosen = undecided[start : start + size]
                whole = self._components(rows[..., chosen], norms[:, chosen])
                correct[:, chosen] = self._mixtures(whole).argmax(axis=-1) == truth[chosen, 0]
            return np.log(of_truth[..., 0]), correct

        found = zip(*self._of_blocks(answers, positions, label), strict=True)
        return dict(zip(self.weights, map(Answers, *map(np.hstack, found)), strict=False))

    def log_probabilities(self, positions: Positions) -> np.ndarray:
        """The log-probabilities of the true tokens by the bigram in nats, float64 [positions]; 0
        for special tokens, which are never predicted."""
        answers, text = np.zeros(len(positions)), np.flatnonzero(self.unigram[positions.truth])
        if len(text):
            chosen = positions[text]
            components = self._components(*self._look_up(chosen, 1), chosen.truth[:, np.newaxis])
            answers[text] = np.log(self._mixtures(components)[0, :, 0])
        return answers

    def _of_blocks(self, function: Callable, positions: Positions, label: str) -> list:
        """What `function` gives for each block of `positions`, in order."""
        starts, made = range(0, len(positions), _BLOCK), []
        progress = Progress(label, len(positions), "positions")
        with ThreadPoolExecutor(_THREADS) as pool:
            blocks = (positions[start : start + _BLOCK] for start in starts)
            for start, result in zip(starts, pool.map(function, blocks), strict=True):
                made.append(result)
                progress.to(min(start + _BLOCK, len(positions)))
        return made

    def _look_up(self, positions: Positions, orders: int = 2) -> tuple[np.ndarray, np.ndarray]:
        """By order, the rows of `positions` in the tables of the left and the right neighbours,
        [orders, 2, n], and the norms by which the product of both is divided, [orders, n].

        With the shares A and the rest a of a row, the left side is L = A + a U or, of two
        neighbours, L' = A' + a' L; so is the right side R = B + b U. The norm, the sum of L R / U,
        is that of the products of sparse rows and of rests, since a row sums to 1 - a."""
        all_rows, norms, norm, before = [], [], np.ones(len(positions)), None
        contexts = zip(self._contexts(positions.left), self._contexts(positions.right), strict=True)
        for tables, context in zip(self._tables[:orders], contexts, strict=False):
            rows = [table.rows(side) for table, side in zip(tables, context, strict=True)]
            a, b = (table.rest[row] for table, row in zip(tables, rows, strict=True))
            left, right = (table.shares[row] for table, row in zip(tables, rows, strict=True))
            norm = self._product(left, right) + a * b * norm
            shorter_left, shorter_right, c, d = before or (None, None, 1, 1)
            norm += b * (d * (1 - a) + self._product(left, shorter_right))
            norm += a * (c * (1 - b) + self._product(shorter_left, right))
            before = left, right, a, b
            all_rows.append(rows)
            norms.append(norm)
        return np.array(all_rows), np.array(norms)

    def _product(self, left: Any, right: Any) -> np.ndarray | float:
        """Sums [n] of the products of two tables of sparse rows, if any, over the unigram."""
        if left is None or right is None:
            return 0.0
        return left.multiply(right) @ self._inverse

    def _components(
        self, rows: np.ndarray, norms: np.ndarray, tokens: np.ndarray | None = None
    ) -> np.ndarray:
        """What each component gives `tokens` [n, k], or all, where `_look_up` found `rows` and
        `norms`: [components, n, k or vocabulary]."""
        unigram, inverse = self.unigram, self._inverse
        shape = norms.shape[1], len(unigram)
        if tokens is not None:
            unigram, inverse, shape = unigram[tokens], inverse[tokens], tokens.shape
        components = np.empty((1 + 3 * len(norms), *shape))
        components[0] = unigram
        shorter = components[0], components[0]
        for tables, pair, norm, parts in zip(
            self._tables, rows, norms, components[1:].reshape(-1, 3, *shape), strict=False
        ):
            *longer, both = parts
            for table, row, before, out in zip(tables, pair, shorter, longer, strict=True):
                table.write(row, tokens, out)
                out += table.rest[row, np.newaxis] * before
            np.multiply(*longer, out=both)
            both *= inverse
            both /= norm[:, np.newaxis]
            shorter = longer
        return components

    def _mixtures(self, components: np.ndarray) -> np.ndarray:
        """The mixtures [mixtures, n, tokens] of `components` [components, n, tokens]."""
        weights = [w for w in self.weights.values() if len(w) <= len(components)]
        # Which adds in one order, so that equals are equal.
        return np.stack([np.einsum("k,knv->nv", w, components[: len(w)]) for w in weights])

    def _contexts(self, neighbours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest of `neighbours` [n, 2], and the two as one number, [n] each. Without its
        nearer neighbour, the farther one says nothing."""
        near, far = neighbours.astype(np.int64).T
        known = (near != NO_NEIGHBOUR) & (far != NO_NEIGHBOUR)
        return near, np.where(known, far * len(self.unigram) + near, NO_NEIGHBOUR)

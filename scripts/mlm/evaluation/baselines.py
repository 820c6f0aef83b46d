"""What counting alone predicts: a unigram, and bigrams and trigrams from both sides.

With c(w | l) the count of w after l, D the absolute discount and n the number of different
followers of l (Ney, Essen and Kneser, 1994):

    U(w)       = (c(w) + 1) / (N + V)                        add-one over the text tokens
    L(w | l)   = max(c(w | l) − D, 0) / c(l) + D n(l) / c(l) · U(w)
    R(w | r)   = the same, with the right neighbour
    B(w | l,r) = L(w | l) R(w | r) / U(w) / Z(l, r)          both, taken as independent given w

The bigram is the mixture λ₁U + λ₂L + λ₃R + λ₄B, its weights fitted by expectation
maximisation on the validation split (Jelinek and Mercer, 1980), never on the test split. A
neighbour that is missing or hidden says nothing: L is then U, and B is R. The trigram mixes in the
same three parts of two neighbours on either side, where L(w | l₂,l₁) is discounted towards
L(w | l₁), and is that where the pair was never seen.

A distribution over the vocabulary is a sparse row, of the tokens seen beside a context, and a
factor of U for all others, so that many positions are scored at once, exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mlm.corpus.counts import ContextCounts, TokenCounts
from mlm.evaluation.predictions import NO_NEIGHBOUR, Positions, Scores
from mlm.foundations.progress_line import Progress
from mlm.shards.split_samples import joined

#: Numbers in the sparse rows of the positions that are scored at once.
_AT_ONCE = 2_000_000
#: Left, right and both, with one neighbour on either side and with two.
_NAMES = (("left", "right", "both"), ("left_two", "right_two", "both_two"))


def unigram_probabilities(counts: TokenCounts, special) -> np.ndarray:
    """U(w), float64 [vocabulary]; 0 for special tokens, which are never predicted."""
    seen = counts.unigram.astype(np.float64) + 1
    seen[list(special)] = 0
    return seen / seen.sum()


def unigram_scores(probabilities: np.ndarray, truth: np.ndarray) -> Scores:
    """The unigram's Scores for the true ids `truth` [positions]."""
    order = np.argsort(-probabilities, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    top = order[0]
    return Scores(
        log_probability=np.log(probabilities[truth]),
        rank=ranks[truth],
        top=np.full(len(truth), top, np.int32),
        top_probability=np.full(len(truth), probabilities[top]),
    )


class _Conditional:
    """Discounted shares of the tokens beside each context, and what each leaves to the others.

    `shares` is sparse [contexts + 1, vocabulary], its last row, empty, for every context that was
    never seen; `rest` is [contexts + 1].
    """

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


@dataclass(frozen=True)
class _Component:
    """A distribution for each of n positions: Σ factor [n] × sparse table + rest [n] × U.

    `factors` are by the name of the table, [n, vocabulary].
    """

    factors: dict[str, np.ndarray | float]
    rest: np.ndarray


class NeighbourMixture:
    """The two-sided bigram, or trigram, of a split's TokenCounts; see the module's text."""

    def __init__(self, counts: TokenCounts, special, order: int):
        """`order` is 2 for the bigram, 3 for the trigram."""
        unigram = unigram_probabilities(counts, special)
        # Columns are tokens by frequency: in every row, tokens that were not seen stand in the
        # order of their probabilities.
        self._tokens = np.argsort(-unigram, kind="stable").astype(np.int32)
        self._place = np.empty_like(self._tokens)
        self._place[self._tokens] = np.arange(len(unigram), dtype=np.int32)
        self._unigram = unigram[self._tokens]
        tables = [counts.beside, counts.beside_two][: order - 1]
        self._sides = [[_Conditional(t[sign], self._place) for t in tables] for sign in (-1, 1)]
        self.name = {2: "bigram", 3: "trigram"}[order]
        self.components = ["unigram", *(name for names in _NAMES[: order - 1] for name in names)]
        self.weights = np.full(len(self.components), 1 / len(self.components))

    def fit(self, positions: Positions, rounds: int = 50) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        parts = self._parts(positions, f"{self.name} weights")
        found = np.concatenate([self._of_truth(part) for part in parts])
        for _ in range(rounds):
            shares = self.weights * found
            shares /= shares.sum(axis=1, keepdims=True)
            self.weights = shares.mean(axis=0)

    def scores(self, positions: Positions, label: str) -> Scores:
        """The mixture's Scores; `label` names them in the progress line."""
        return joined([self._scores(part) for part in self._parts(positions, label)])

    def _parts(self, positions: Positions, label: str) -> Iterator[Positions]:
        """`positions` in parts whose sparse rows are in memory together."""
        progress = Progress(label, len(positions), "positions")
        sizes = sum(
            np.diff(side[0].shares.indptr)[side[0].rows_of(near[:, 0])]
            for side, near in zip(self._sides, (positions.left, positions.right), strict=True)
        )
        ends = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
        for first, last in pairwise([0, *ends.tolist(), len(positions)]):
            yield positions[first:last]
            progress.to(last)

    def _components(self, positions: Positions) -> tuple[dict, list[_Component]]:
        """The sparse tables by name, and the mixture's components, in the order of the weights."""
        ones = np.ones(len(positions))
        tables, components = {}, [_Component({}, ones)]
        shorter = [(None, ones), (None, ones)]
        for order, (left, right, both) in enumerate(_NAMES[: len(self._sides[0])]):
            for i, near in enumerate((positions.left, positions.right)):
                shorter[i] = self._beside(i, order, near.astype(np.int64), *shorter[i])
            (tables[left], of_left), (tables[right], of_right) = shorter
            product = tables[left].multiply(tables[right]).tocsr()
            product.data /= self._unigram[product.indices]
            tables[both] = product
            z = product.sum(axis=1) + of_left + of_right - of_left * of_right
            components += [
                _Component({left: 1.0}, of_left),
                _Component({right: 1.0}, of_right),
                _Component(
                    {left: of_right / z, right: of_left / z, both: 1 / z}, of_left * of_right / z
                ),
            ]
        return tables, components

    def _beside(self, side: int, order: int, near: np.ndarray, shares, rest: np.ndarray):
        """The sparse rows and the rests of P(w | the nearest `order` + 1 neighbours), from those
        of one neighbour less."""
        context = near[:, 0]
        if order:
            # Without its nearer neighbour, the farther one says nothing.
            known = (near[:, :2] != NO_NEIGHBOUR).all(axis=1)
            context = np.where(known, near[:, 1] * len(self._tokens) + context, NO_NEIGHBOUR)
        table = self._sides[side][order]
        rows = table.rows_of(context)
        found, left_over = table.shares[rows], table.rest[rows]
        if shares is not None:
            found = found + _scaled(shares, left_over)
        return found, left_over * rest

    def _of_truth(self, positions: Positions) -> np.ndarray:
        """What each component gives the true token, [positions, components]."""
        tables, components = self._components(positions)
        truth = self._place[positions.truth]
        rows = np.arange(len(truth))
        values = {name: table[rows, truth] for name, table in tables.items()}
        return np.stack(
            [
                sum(
                    (f * values[name] for name, f in c.factors.items()),
                    c.rest * self._unigram[truth],
                )
                for c in components
            ],
            axis=1,
        )

    def _mixture(self, positions: Positions):
        """(Sparse rows, rests) of the whole mixture."""
        tables, components = self._components(positions)
        weighted = list(zip(self.weights, components, strict=True))
        rest = sum(weight * c.rest for weight, c in weighted)
        shares = None
        for name, table in tables.items():
            factor = sum(weight * c.factors[name] for weight, c in weighted if name in c.factors)
            scaled = _scaled(table, np.broadcast_to(factor, rest.shape))
            shares = scaled if shares is None else shares + scaled
        return shares, rest

    def probabilities(self, positions: Positions) -> np.ndarray:
        """The mixture over the whole vocabulary, float64 [positions, vocabulary]."""
        shares, rest = self._mixture(positions)
        return (shares.toarray() + np.outer(rest, self._unigram))[:, self._place]

    def _scores(self, positions: Positions) -> Scores:
        shares, rest = self._mixture(positions)
        count = np.diff(shares.indptr)
        row = np.repeat(np.arange(len(rest)), count)
        usual = rest[row] * self._unigram[shares.indices]
        probability = shares.data + usual
        token = self._tokens[shares.indices]

        truth = self._place[positions.truth]
        of_truth = shares[np.arange(len(rest)), truth] + rest * self._unigram[truth]
        same = token == positions.truth[row]
        # The number itself, so that it does not differ from its own row by a rounding error.
        of_truth[row[same]] = probability[same]
        ahead = probability > of_truth[row]
        ahead |= (probability == of_truth[row]) & (token < positions.truth[row])
        # Of tokens that stand in no row, those before the true one, or that are more probable.
        unseen = np.where(
            _sums(same, row, len(rest)) > 0,
            np.searchsorted(-self._unigram, -of_truth / rest),
            truth,
        )
        unseen -= _sums(shares.indices < unseen[row], row, len(rest))
        rank = 1 + _sums(ahead, row, len(rest)) + unseen

        # The most probable token that stands in no row: the first place that the row leaves out.
        within = np.arange(len(row)) - np.repeat(shares.indptr[:-1], count)
        first = np.minimum(_sums(shares.indices == within, row, len(rest)), len(self._tokens) - 1)
        top, best = self._tokens[first].copy(), rest * self._unigram[first]
        np.maximum.at(best, row, probability)
        winning = np.flatnonzero(probability == best[row])
        highest = best > rest * self._unigram[first]
        top[highest] = len(self._tokens)
        np.minimum.at(top, row[winning], token[winning])
        return Scores(np.log(of_truth), rank, top, best)


def _scaled(table, factors: np.ndarray):
    """The sparse table with row i times factors[i]."""
    scaled = table.copy()
    scaled.data *= np.repeat(factors, np.diff(table.indptr))
    return scaled


def _sums(values: np.ndarray, row: np.ndarray, rows: int) -> np.ndarray:
    """Σ values by row, int64 [rows]."""
    return np.bincount(row[values], minlength=rows)


def with_hidden_neighbours(positions: Positions) -> Positions:
    """`positions` where a neighbour that is to be predicted as well counts as missing."""
    return replace(
        positions,
        left=np.where(positions.left_hidden, NO_NEIGHBOUR, positions.left),
        right=np.where(positions.right_hidden, NO_NEIGHBOUR, positions.right),
    )

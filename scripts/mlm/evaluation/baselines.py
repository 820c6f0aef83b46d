"""What counting alone predicts: a unigram, and a bigram from both neighbours.

With c(w | l) the count of w after l, D the absolute discount and n the number of different
followers of l (Ney, Essen and Kneser, 1994):

    U(w)       = (c(w) + 1) / (N + V)                        add-one over the text tokens
    L(w | l)   = max(c(w | l) − D, 0) / c(l) + D n(l) / c(l) · U(w)
    R(w | r)   = the same, with the right neighbour
    B(w | l,r) = L(w | l) R(w | r) / U(w) / Z(l, r)          both, taken as independent given w

The bigram is the mixture λ₁U + λ₂L + λ₃R + λ₄B, its weights fitted by expectation
maximisation on the validation split (Jelinek and Mercer, 1980), never on the test split. A
neighbour that is missing or hidden says nothing: L is then U, and B is R.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from mlm.corpus.counts import PairCounts, TokenCounts
from mlm.evaluation.predictions import NO_NEIGHBOUR, Positions, Scores
from mlm.foundations.progress_line import Progress

#: The mixture's parts, in the order of the weights.
COMPONENTS = ("unigram", "left", "right", "both")


@dataclass(frozen=True)
class Conditional:
    """P(w | context) by absolute discounting towards the unigram.

    `shares` are the discounted shares of the pairs, in their order; `rest` [vocabulary] is
    what each context leaves to the unigram.
    """

    pairs: PairCounts
    shares: np.ndarray
    rest: np.ndarray

    @classmethod
    def of(cls, pairs: PairCounts) -> "Conditional":
        """With the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser."""
        once, twice = (np.count_nonzero(pairs.counts == n) for n in (1, 2))
        # Without singletons the estimate is 0, and unseen pairs would get nothing.
        discount = once / (once + 2 * twice) if once and twice else 0.5
        different = np.diff(pairs.starts)
        sums = np.concatenate([[0], np.cumsum(pairs.counts)])[pairs.starts]
        totals = np.maximum(np.diff(sums), 1)
        shares = (pairs.counts - discount) / np.repeat(totals, different)
        return cls(pairs, shares, np.where(different, discount * different / totals, 1.0))

    def row(self, context: int) -> tuple[np.ndarray, np.ndarray, float]:
        """(tokens, their discounted shares, the share left to the unigram)."""
        if context < 0:
            return self.pairs.tokens[:0], self.shares[:0], 1.0
        chosen = slice(self.pairs.starts[context], self.pairs.starts[context + 1])
        return self.pairs.tokens[chosen], self.shares[chosen], self.rest[context]


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


class Bigram:
    """The two-sided bigram of a split's TokenCounts; see the module's text."""

    def __init__(self, counts: TokenCounts, special):
        self.unigram = unigram_probabilities(counts, special)
        self.left = Conditional.of(counts.after)
        self.right = Conditional.of(counts.before)
        self.weights = np.full(len(COMPONENTS), 1 / len(COMPONENTS))
        # Of the tokens seen beside neither neighbour, these are the most probable.
        self._frequent = np.argsort(-self.unigram, kind="stable")[:5].astype(np.int32)
        # Dense rows of the two neighbours at hand; zero between two positions.
        self._ahead, self._behind = np.zeros((2, len(self.unigram)))

    def probabilities(self, left: int, right: int, wanted: np.ndarray) -> np.ndarray:
        """U, L, R and B of the tokens `wanted` [n] between two neighbours: [4, n]."""
        ahead, behind = self.left.row(left), self.right.row(right)
        with self._rows(ahead, behind) as z:
            return self._components(wanted, ahead[2], behind[2], z)

    @contextmanager
    def _rows(self, ahead, behind):
        """Lay out both neighbours' rows densely; gives Z = Σ L R / U over all tokens.

        The sum is exact and sparse: it splits into the rest shares, which are known, and a
        sum over the tokens that were seen beside both.
        """
        left_tokens, left_shares, left_rest = ahead
        right_tokens, right_shares, right_rest = behind
        self._ahead[left_tokens] = left_shares
        self._behind[right_tokens] = right_shares
        try:
            both = left_shares * self._behind[left_tokens] / self.unigram[left_tokens]
            z = float(both.sum()) + left_rest + right_rest - left_rest * right_rest
            yield z
        finally:
            self._ahead[left_tokens] = 0
            self._behind[right_tokens] = 0

    def _components(self, tokens, left_rest: float, right_rest: float, z: float) -> np.ndarray:
        prior = self.unigram[tokens]
        ahead = self._ahead[tokens] + left_rest * prior
        behind = self._behind[tokens] + right_rest * prior
        return np.stack([prior, ahead, behind, ahead * behind / (prior * z)])

    def fit(self, positions: Positions, rounds: int = 50) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        progress = Progress("bigram weights", len(positions), "positions")
        found = np.empty((len(positions), len(COMPONENTS)))
        for i, (left, right, truth) in enumerate(_contexts(positions)):
            found[i] = self.probabilities(left, right, np.array([truth]))[:, 0]
            progress.to(i + 1)
        for _ in range(rounds):
            shares = self.weights * found
            shares /= shares.sum(axis=1, keepdims=True)
            self.weights = shares.mean(axis=0)

    def scores(self, positions: Positions, label: str = "bigram") -> Scores:
        """The mixture's Scores.

        Ranks are exact up to 5; beyond, tokens seen beside neither neighbour are not counted.
        """
        progress = Progress(label, len(positions), "positions")
        log_probability, top_probability = np.empty(len(positions)), np.empty(len(positions))
        rank, top = np.empty(len(positions), np.int64), np.empty(len(positions), np.int32)
        for i, (left, right, truth) in enumerate(_contexts(positions)):
            ahead, behind = self.left.row(left), self.right.row(right)
            with self._rows(ahead, behind) as z:
                candidates = self._candidates(ahead[0], behind[0], truth)
                parts = self._components(candidates, ahead[2], behind[2], z)
            probability = self.weights @ parts
            of_truth, best = probability[-1], probability.max()
            higher = probability > of_truth
            higher |= (probability == of_truth) & (candidates < truth)
            # The true token may stand among the candidates twice, a rounding error apart.
            rank[i] = 1 + np.count_nonzero(higher & (candidates != truth))
            top[i], top_probability[i] = candidates[probability == best].min(), best
            log_probability[i] = np.log(of_truth)
            progress.to(i + 1)
        return Scores(log_probability, rank, top, top_probability)

    def _candidates(self, ahead: np.ndarray, behind: np.ndarray, truth: int) -> np.ndarray:
        """Every token that may be among the best five, and last the true one."""
        seen = self._ahead[self._frequent] + self._behind[self._frequent]
        only_behind = behind[self._ahead[behind] == 0]
        return np.concatenate([ahead, only_behind, self._frequent[seen == 0], [truth]])


def with_hidden_neighbours(positions: Positions) -> Positions:
    """`positions` where a neighbour that is to be predicted as well counts as missing."""
    values = {name: getattr(positions, name) for name in Positions.__dataclass_fields__}
    values["left"] = np.where(positions.left_hidden, NO_NEIGHBOUR, positions.left)
    values["right"] = np.where(positions.right_hidden, NO_NEIGHBOUR, positions.right)
    return Positions(**values)


def _contexts(positions: Positions):
    return zip(
        positions.left.tolist(), positions.right.tolist(), positions.truth.tolist(), strict=True
    )

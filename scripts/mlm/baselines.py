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

from dataclasses import dataclass

import numpy as np

from mlm.counts import PairCounts, TokenCounts
from mlm.predictions import NO_NEIGHBOUR, Positions, Scores
from mlm.progress_line import Progress

#: The mixture's parts, in the order of the weights.
COMPONENTS = ("unigram", "left", "right", "both")


@dataclass(frozen=True)
class Conditional:
    """P(w | context) by absolute discounting towards the unigram."""

    pairs: PairCounts
    totals: np.ndarray
    discount: float

    def row(self, context: int) -> tuple[np.ndarray, np.ndarray, float]:
        """(tokens, their discounted share, the share that goes to the unigram)."""
        tokens, counts = self.pairs.row(context)
        if not len(tokens):
            return tokens, np.zeros(0), 1.0
        total = self.totals[context]
        return tokens, (counts - self.discount) / total, self.discount * len(tokens) / total


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
        self.left = _conditional(counts.after)
        self.right = _conditional(counts.before)
        self.weights = np.array([0.1, 0.15, 0.15, 0.6])
        # A few of the most frequent tokens: the best of all tokens seen beside neither
        # neighbour is among them, or has one of them above it.
        self._frequent = np.argsort(-self.unigram, kind="stable")[:5]

    def _components(self, left: int, right: int, wanted: np.ndarray) -> np.ndarray:
        """U, L, R and B of the tokens `wanted` [n]: float64 [4, n]."""
        unigram = self.unigram
        left_tokens, left_shares, left_rest = self.left.row(left)
        right_tokens, right_shares, right_rest = self.right.row(right)
        prior = unigram[wanted]
        ahead = _looked_up(left_tokens, left_shares, wanted) + left_rest * prior
        behind = _looked_up(right_tokens, right_shares, wanted) + right_rest * prior
        # Σ_w L R / U, exact and sparse: only tokens seen beside both need the division.
        common = _looked_up(right_tokens, right_shares, left_tokens)
        z = float(np.sum(left_shares * common / unigram[left_tokens])) if len(common) else 0.0
        z += right_rest * (1 - left_rest) + left_rest * (1 - right_rest) + left_rest * right_rest
        return np.stack([prior, ahead, behind, ahead * behind / np.maximum(prior, 1e-300) / z])

    def truth_components(self, positions: Positions, label: str) -> np.ndarray:
        """U, L, R and B of the true tokens: float64 [positions, 4]."""
        progress = Progress(label, len(positions), "positions")
        out = np.empty((len(positions), len(COMPONENTS)))
        for i, (left, right, truth) in enumerate(_contexts(positions)):
            out[i] = self._components(left, right, np.array([truth]))[:, 0]
            progress.to(i + 1)
        return out

    def fit(self, positions: Positions, rounds: int = 50) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        probabilities = self.truth_components(positions, "bigram weights")
        for _ in range(rounds):
            shares = self.weights * probabilities
            shares /= shares.sum(axis=1, keepdims=True)
            self.weights = shares.mean(axis=0)

    def scores(self, positions: Positions, label: str = "bigram") -> Scores:
        """The mixture's Scores. Ranks are exact up to 5; below, they may be too high by
        the tokens seen beside neither neighbour."""
        progress = Progress(label, len(positions), "positions")
        log_probability, top_probability = np.empty(len(positions)), np.empty(len(positions))
        rank, top = np.empty(len(positions), np.int64), np.empty(len(positions), np.int32)
        for i, (left, right, truth) in enumerate(_contexts(positions)):
            candidates = np.unique(
                np.concatenate(
                    [self.left.row(left)[0], self.right.row(right)[0], self._frequent, [truth]]
                )
            )
            probability = self.weights @ self._components(left, right, candidates)
            place = np.searchsorted(candidates, truth)
            of_truth = probability[place]
            above = np.count_nonzero(probability > of_truth)
            rank[i] = 1 + above + np.count_nonzero(probability[:place] == of_truth)
            best = np.argmax(probability)
            top[i], top_probability[i] = candidates[best], probability[best]
            log_probability[i] = np.log(of_truth)
            progress.to(i + 1)
        return Scores(log_probability, rank, top, top_probability)


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


def _conditional(pairs: PairCounts) -> Conditional:
    """Totals by context, and the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser."""
    sums = np.concatenate([[0], np.cumsum(pairs.counts)])
    totals = sums[pairs.starts[1:]] - sums[pairs.starts[:-1]]
    once, twice = (np.count_nonzero(pairs.counts == n) for n in (1, 2))
    # Without singletons the estimate is 0 and unseen pairs would get nothing.
    discount = once / (once + 2 * twice) if once and twice else 0.5
    return Conditional(pairs, totals, discount)


def _looked_up(tokens: np.ndarray, shares: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The share of each of `wanted`, 0 where it is not among the ascending `tokens`."""
    if not len(tokens) or not len(wanted):
        return np.zeros(len(wanted))
    place = np.minimum(np.searchsorted(tokens, wanted), len(tokens) - 1)
    return np.where(tokens[place] == wanted, shares[place], 0.0)

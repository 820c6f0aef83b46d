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
"""

from collections.abc import Iterator

import numpy as np

from mlm.evaluation.predictions import NO_NEIGHBOUR, Answers, Positions
from mlm.foundations.terminal import Progress
from mlm.samples.token_counts import ContextCounts, TokenCounts

#: What each mixture is made of.
COMPONENTS = {
    "bigram": ["unigram", "left", "right", "both"],
    "trigram": ["unigram", "left", "right", "both", "left_two", "right_two", "both_two"],
}
#: Probabilities of a component that are in memory together.
_CELLS = 2**18
#: Of expectation maximisation.
_ROUNDS = 50


class _Conditionals:
    """Discounted shares of the tokens beside each context of a table, as sparse rows, and the share
    `rest` [rows] left to other tokens. The last row, empty, is for contexts never seen."""

    def __init__(self, counted: ContextCounts, vocabulary: int):
        """With the discount n₁ / (n₁ + 2 n₂) of Ney, Essen and Kneser."""
        from scipy.sparse import csr_array

        once, twice = (np.count_nonzero(counted.counts == n) for n in (1, 2))
        # Without singletons the estimate is 0, and unseen tokens would get nothing.
        discount = once / (once + 2 * twice) if once and twice else 0.5
        lengths = np.diff(counted.starts)
        totals = np.add.reduceat(counted.counts, counted.starts[:-1], dtype=np.int64)
        shares = (counted.counts - discount) / np.repeat(totals, lengths)
        # Of int64 SciPy would make copies of all: there are fewer than 2^31.
        starts = np.append(counted.starts, counted.starts[-1]).astype(np.int32)
        shape = len(lengths) + 1, vocabulary
        self._shares = csr_array((shares, counted.tokens, starts), shape=shape)
        self._rest = np.append(discount * lengths / totals, 1.0)
        self._contexts = np.append(counted.contexts, np.iinfo(np.int64).max)

    def write(self, contexts: np.ndarray, shorter: np.ndarray, out: np.ndarray) -> None:
        """Write P(w | context) for `contexts` [n] to `out`, discounted towards `shorter`."""
        rows = np.searchsorted(self._contexts, contexts)
        rows = np.where(self._contexts[rows] == contexts, rows, len(self._rest) - 1)
        self._shares[rows].toarray(out=out)
        out += self._rest[rows, np.newaxis] * shorter


class NeighbourMixtures:
    """The two-sided bigram and, if triples were counted, the trigram; see the module's text."""

    def __init__(self, counts: TokenCounts, special):
        seen = counts.unigram.astype(np.float64) + 1
        seen[list(special)] = 0
        # U(w), 0 for special tokens, which are never predicted.
        self.unigram = seen / seen.sum()
        vocabulary = len(self.unigram)
        # By the number of neighbours: those on the left, and those on the right.
        self._tables = [
            (_Conditionals(table[-1], vocabulary), _Conditionals(table[1], vocabulary))
            for table in (counts.beside, counts.beside_two)
            if table
        ]
        self._inverse = np.divide(1, self.unigram, out=np.zeros(vocabulary), where=self.unigram > 0)
        self.weights = {
            name: np.full(len(parts), 1 / len(parts))
            for name, parts in list(COMPONENTS.items())[: len(self._tables)]
        }

    def unigram_answers(self, truth: np.ndarray) -> Answers:
        """The unigram's answers for the true ids `truth` [positions]."""
        return Answers(np.log(self.unigram[truth]), truth == np.argmax(self.unigram))

    def fit(self, positions: Positions) -> None:
        """Set the weights by expectation maximisation on `positions`."""
        likelihoods = np.empty((len(positions), 1 + 3 * len(self._tables)))
        for block, truth, components in self._blocks(positions, "baseline weights"):
            likelihoods[block] = components[:, np.arange(len(truth)), truth].T
        for name, weights in self.weights.items():
            for _ in range(_ROUNDS):
                shares = weights * likelihoods[:, : len(weights)]
                shares /= shares.sum(axis=1, keepdims=True)
                weights = shares.mean(axis=0)
            self.weights[name] = weights

    def scores(self, positions: Positions, label: str, orders: int = 2) -> dict[str, Answers]:
        """The answers by mixture, of the first `orders`; `label` names the progress line."""
        names = list(self.weights)[:orders]
        probability = np.empty((len(names), len(positions)))
        correct = np.empty(probability.shape, bool)
        for block, truth, components in self._blocks(positions, label, orders):
            for i, name in enumerate(names):
                weights = self.weights[name]
                # Which adds in one order, so that equals are equal.
                mixture = np.einsum("k,knv->nv", weights, components[: len(weights)])
                probability[i, block] = mixture[np.arange(len(truth)), truth]
                correct[i, block] = mixture.argmax(axis=1) == truth
        return dict(zip(names, map(Answers, np.log(probability), correct), strict=True))

    def log_probabilities(self, positions: Positions) -> np.ndarray:
        """The log-probabilities of the true tokens by the bigram in nats, float64 [positions]; 0
        for special tokens, which are never predicted."""
        found, text = np.zeros(len(positions)), np.flatnonzero(self.unigram[positions.truth])
        found[text] = self.scores(positions[text], "bigram", 1)["bigram"].log_probability
        return found

    def _blocks(
        self, positions: Positions, label: str, orders: int = 2
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Slices of `positions` that fit in memory, their true tokens, and what each component
        gives every token there, [components, positions, vocabulary], until the next slice."""
        size = max(1, _CELLS // len(self.unigram))
        components = np.empty((1 + 3 * len(self._tables[:orders]), size, len(self.unigram)))
        components[0] = self.unigram
        progress = Progress(label, len(positions), "positions")
        for start in range(0, len(positions), size):
            block = slice(start, min(start + size, len(positions)))
            part = components[:, : block.stop - start]
            self._write_components(positions[block], part)
            yield block, positions.truth[block], part
            progress.to(block.stop)

    def _write_components(self, positions: Positions, components: np.ndarray) -> None:
        left = right = components[0]
        contexts = zip(self._contexts(positions.left), self._contexts(positions.right), strict=True)
        kinds = (components[1 + i :: 3] for i in range(3))
        parts = zip(*kinds, self._tables, contexts, strict=False)
        for on_left, on_right, both, tables, (left_context, right_context) in parts:
            tables[0].write(left_context, left, on_left)
            tables[1].write(right_context, right, on_right)
            np.multiply(on_left, on_right, out=both)
            both *= self._inverse
            both /= both.sum(axis=1, keepdims=True)
            left, right = on_left, on_right

    def _contexts(self, neighbours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest of `neighbours` [n, 2], and the two as one number, [n] each. Without its
        nearer neighbour, the farther one says nothing."""
        near, far = neighbours.astype(np.int64).T
        known = (near != NO_NEIGHBOUR) & (far != NO_NEIGHBOUR)
        return near, np.where(known, far * len(self.unigram) + near, NO_NEIGHBOUR)

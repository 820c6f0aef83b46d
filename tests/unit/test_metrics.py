import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.extreme_samples import best_and_worst
from mlm.evaluation.metrics import (
    bits_per_character,
    calibration_of,
    frequency_bands,
    gap_between,
    paired_difference,
    position_bins,
    summary_of,
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
    found = summary_of(scored, 4, 30 / 90, RESAMPLING)
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
    assert bits_per_character(2.0, 200 / 600) == pytest.approx(bits_per_character(4.0, 100 / 600))
    assert bits_per_character(math.log(2), 1.0) == pytest.approx(1.0)
    assert bits_per_character(2.0, None) is None


def test_bands_part_the_predictions_whatever_the_order_of_their_limits():
    # By frequency the ids 2, 0, 1, 3: of equals, the lower id first.
    truth, counts = np.array([2, 0, 1, 3, 3]), np.array([5, 5, 9, 0])
    bands = frequency_bands(truth, _scores([1.0, 2.0, 3.0, 4.0, 6.0]), counts, [3, 1, 3])
    assert [(b.first_rank, b.last_rank) for b in bands] == [(1, 1), (2, 3), (4, None)]
    assert [b.label for b in bands] == ["1 to 1", "2 to 3", "4 and rarer"]
    assert [b.num_predictions for b in bands] == [1, 2, 2]
    assert [b.loss for b in bands] == pytest.approx([1.0, 2.5, 5.0])


@pytest.mark.parametrize("length", [8, 10, 64, 100])
def test_position_bins_cover_the_sequence_without_overlap(length):
    position = np.arange(length)
    bins = position_bins(position, _scores(np.ones(length)), length)
    assert [p for b in bins for p in range(b.first, b.last + 1)] == position.tolist()
    assert sum(b.num_predictions for b in bins) == length


def test_best_and_worst_samples_are_in_order_and_never_the_same():
    sample = np.repeat(np.arange(4), 3)
    best, worst = best_and_worst(sample, _scores(np.repeat([2.0, 1.0, 4.0, 3.0], 3)), 5)
    assert [s[0] for s in best] == [1, 0]
    assert [s[0] for s in worst] == [2, 3]
    assert best[0][1:] == (1.0, 1.0)


def test_a_stub_with_one_lucky_guess_is_not_the_best_sample():
    sample = np.array([0] * 8 + [1] * 8 + [2])
    best, worst = best_and_worst(sample, _scores([2.0] * 8 + [3.0] * 8 + [0.001]), 1)
    assert (best[0][0], worst[0][0]) == (0, 1)


def test_a_paired_difference_is_sharper_than_the_two_intervals():
    generator = np.random.default_rng(0)
    sample = np.repeat(np.arange(100), 5)
    hard = generator.normal(5, 2, 500)
    found = paired_difference(sample, hard, hard + generator.normal(0.1, 0.1, 500), RESAMPLING)
    assert found.difference_interval[1] < 0
    assert found.difference == pytest.approx(-0.1, abs=0.02)


def test_two_texts_are_resampled_independently():
    ids = np.random.default_rng(0).integers(5, 9, (50, 4))
    asked = positions_of(ids, np.ones_like(ids), ids, np.ones_like(ids))
    scored = Scored(asked, _scores(np.random.default_rng(0).normal(5, 1, 200)))
    found = gap_between(scored, scored, RESAMPLING)
    low, high = found.difference_interval
    assert found.difference == 0 and low < -0.05 < 0.05 < high


def test_the_error_is_the_weighted_gap_between_confidence_and_accuracy():
    # 3 of 4 right at 0.9, 0 of 1 right at 0.3: (4 × 0.15 + 1 × 0.3) / 5.
    found = calibration_of(np.array([0.9] * 4 + [0.3]), np.array([1, 1, 1, 0, 0]), 10)
    assert found.expected_calibration_error == pytest.approx(0.18)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50),
    st.integers(2, 20),
)
@example([(0.0, False), (1.0, True), (1.0000001, True)], 4)
def test_every_prediction_is_in_the_one_bin_that_holds_its_confidence(pairs, count):
    confidence, correct = np.array([p for p, _ in pairs]), np.array([c for _, c in pairs])
    bins = calibration_of(confidence, correct, count).bins
    assert sum(b.num_predictions for b in bins) == len(pairs)
    for b in bins:
        if b.num_predictions:
            assert b.low - 1e-6 <= b.confidence <= b.high + 1e-6
        else:
            assert b.confidence is None and b.accuracy is None

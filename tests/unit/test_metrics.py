import math

import numpy as np
import pytest

from mlm.evaluation.bootstrap import Resampling, bundled, interval, resampled_means
from mlm.evaluation.metrics import (
    bits_per_character,
    calibration_of,
    frequency_bands,
    gap_between,
    paired_difference,
    summary_of,
)
from mlm.evaluation.predictions import Scored, Scores, positions_of

RESAMPLING = Resampling(resamples=200, confidence=0.95, seed=0)


def _scores(loss, rank=None):
    loss = np.asarray(loss, float)
    rank = np.ones(len(loss), int) if rank is None else np.asarray(rank)
    return Scores(-loss, rank == 1, rank, np.exp(-loss))


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
    assert (found.accuracy, found.top5_accuracy) == pytest.approx((1 / 3, 2 / 3))
    assert (found.num_predictions, found.num_samples, found.num_groups) == (3, 1, 1)
    assert (found.hidden.loss, found.hidden.num_predictions) == (pytest.approx(1.5), 2)
    assert found.hidden.perplexity == pytest.approx(math.exp(1.5))
    assert (found.hidden.accuracy, found.hidden.top5_accuracy) == (0.5, 1.0)
    assert found.bits_per_character == pytest.approx(1.5 / math.log(2) * 30 / 90)
    assert found.loss_interval[0] <= found.loss <= found.loss_interval[1]
    # Half as many tokens, each of twice the loss: the same text costs the same.
    assert bits_per_character(2.0, 200 / 600) == pytest.approx(bits_per_character(4.0, 100 / 600))
    assert bits_per_character(2.0, None) is None


def test_bands_part_the_predictions_whatever_the_order_of_their_limits():
    # By frequency the ids 2, 0, 1, 3: of equals, the lower id first.
    truth, counts = np.array([2, 0, 1, 3, 3]), np.array([5, 5, 9, 0])
    bands = frequency_bands(truth, _scores([1.0, 2.0, 3.0, 4.0, 6.0]), counts, [3, 1, 3])
    assert [(b.label, b.first_rank, b.last_rank) for b in bands] == [
        ("1 to 1", 1, 1),
        ("2 to 3", 2, 3),
        ("4 and rarer", 4, None),
    ]
    assert [b.num_predictions for b in bands] == [1, 2, 2]
    assert [b.loss for b in bands] == pytest.approx([1.0, 2.5, 5.0])


def test_of_nothing_there_is_no_figure_and_of_one_sample_no_interval_and_no_verdict():
    assert bits_per_character(2.0, None) is None and bits_per_character(2.0, 0.0) is None
    nothing = calibration_of(np.array([]), np.array([]), 10)
    assert nothing.expected_calibration_error is None
    loss = np.array([1.0, 2.0, 3.0])
    found = paired_difference(np.zeros(3, int), loss, loss + 1, RESAMPLING)
    assert (found.difference, found.difference_interval, found.tone) == (-1, None, "even")
    assert paired_difference(np.arange(3), loss, loss + 1, RESAMPLING).tone == "better"


def test_two_texts_are_resampled_independently():
    ids = np.random.default_rng(0).integers(5, 9, (50, 4))
    asked = positions_of(ids, np.ones_like(ids), ids, np.ones_like(ids))
    scored = Scored(asked, _scores(np.random.default_rng(0).normal(5, 1, 200)))
    found = gap_between(scored, scored, RESAMPLING)
    low, high = found.difference_interval
    assert found.difference == 0 and low < -0.05 < 0.05 < high
    # A text that is harder for the unigram as well is no gap.
    harder = Scored(asked, _scores(scored.scores.loss + 2))
    unigram = np.full(200, 6.0), np.full(200, 4.0)
    assert gap_between(harder, scored, RESAMPLING, less=unigram).tone == "even"
    assert gap_between(harder, scored, RESAMPLING).tone == "worse"


def test_the_error_is_the_weighted_gap_between_confidence_and_accuracy():
    # 3 of 4 right at 0.9, 0 of 1 right at 0.3: (4 × 0.15 + 1 × 0.3) / 5.
    found = calibration_of(np.array([0.9] * 4 + [0.3]), np.array([1, 1, 1, 0, 0]), 10)
    assert found.expected_calibration_error == pytest.approx(0.18)


def _hits(generator, samples: int, accuracy: float):
    counts = generator.integers(5, 15, samples)
    rates = generator.beta(10 * accuracy, 10 * (1 - accuracy), samples)
    return generator.binomial(counts, rates).astype(float)[:, None], counts


def test_the_95_percent_interval_holds_the_truth_in_93_to_97_percent_of_trials():
    generator = np.random.default_rng(7)
    trials, held = 1000, 0
    for trial in range(trials):
        totals, counts = _hits(generator, 150, 0.3)
        low, high = interval(resampled_means(totals, counts, 400, trial)[:, 0], 0.95)
        held += low <= 0.3 <= high
    assert 0.93 <= held / trials <= 0.97


def test_a_mean_is_a_ratio_of_sums_and_groups_without_a_prediction_count_for_nothing():
    totals, counts = np.array([[10.0], [0.0], [0.0]]), np.array([10, 1, 0])
    means = resampled_means(totals, counts, 200, 0)
    assert set(np.round(means[:, 0], 6)) == {1.0, round(10 / 11, 6), 0.0}


@pytest.mark.parametrize("groups", [1, 7, 23])
def test_bundles_are_few_and_lose_nothing(groups):
    table = np.random.default_rng(0).integers(0, 9, (groups, 3))
    found = bundled(table, 7)
    assert len(found) == min(groups, 7)
    assert (found.sum(axis=0) == table.sum(axis=0)).all()

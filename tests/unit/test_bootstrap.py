import numpy as np
import pytest

from mlm.evaluation.bootstrap import bundled, interval, resampled_means, sums_by_sample


def _predictions(generator, samples: int, accuracy: float):
    """Samples of different length whose hits lean together, with a known mean accuracy."""
    counts = generator.integers(5, 15, samples)
    # A beta distribution with this mean: samples differ, as texts do.
    rates = generator.beta(10 * accuracy, 10 * (1 - accuracy), samples)
    return generator.binomial(counts, rates).astype(float)[:, None], counts


@pytest.mark.parametrize("accuracy", [0.3, 0.6])
def test_the_95_percent_interval_holds_the_truth_in_93_to_97_percent_of_trials(accuracy):
    generator = np.random.default_rng(7)
    trials, held = 1000, 0
    for trial in range(trials):
        totals, counts = _predictions(generator, 150, accuracy)
        low, high = interval(resampled_means(totals, counts, 400, trial)[:, 0], 0.95)
        held += low <= accuracy <= high
    assert 0.93 <= held / trials <= 0.97


def test_the_same_seed_gives_the_same_means_and_another_seed_others():
    totals, counts = _predictions(np.random.default_rng(0), 50, 0.5)
    first = resampled_means(totals, counts, 100, 3)
    assert np.array_equal(first, resampled_means(totals, counts, 100, 3))
    assert not np.array_equal(first, resampled_means(totals, counts, 100, 4))


def test_a_mean_is_a_ratio_of_sums_not_a_mean_of_means():
    totals, counts = np.array([[10.0], [0.0]]), np.array([10, 1])
    means = resampled_means(totals, counts, 200, 0)
    assert set(np.round(means[:, 0], 6)) == {1.0, round(10 / 11, 6), 0.0}


def test_samples_without_a_prediction_count_for_nothing():
    totals, counts = np.array([[1.0], [0.0], [3.0]]), np.array([2, 0, 4])
    kept = [0, 2]
    assert np.array_equal(
        resampled_means(totals, counts, 50, 1), resampled_means(totals[kept], counts[kept], 50, 1)
    )


def test_sums_by_sample_adds_up_by_index_in_any_order():
    totals, counts = sums_by_sample(np.array([7, 2, 7]), np.array([1.0, 5.0, 2.0]), [True, True, 0])
    assert totals.tolist() == [[5.0, 1.0], [3.0, 1.0]]
    assert counts.tolist() == [1, 2]


@pytest.mark.parametrize("groups", [1, 6, 7, 20, 23])
def test_bundles_are_few_and_lose_nothing(groups):
    table = np.random.default_rng(0).integers(0, 9, (groups, 3))
    found = bundled(table, 7)
    assert len(found) == min(groups, 7)
    assert (found.sum(axis=0) == table.sum(axis=0)).all()


def test_few_bundles_of_many_groups_give_about_the_same_interval():
    totals, counts = _predictions(np.random.default_rng(1), 5000, 0.5)
    table = bundled(np.column_stack([totals, counts]), 500)
    widths = []
    for t in (np.column_stack([totals, counts]), table):
        low, high = interval(resampled_means(t[:, :1], t[:, 1], 1000, 0)[:, 0], 0.95)
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0], rel=0.1)

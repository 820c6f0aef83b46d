import math
from dataclasses import replace

import numpy as np
import pytest

from mlm.evaluation import metrics
from mlm.evaluation.artefacts import ClusterSums
from mlm.evaluation.hidden_sets import Positions, Scores, positions_of
from mlm.evaluation.intervals import Clusters, Estimate, mean_of
from mlm.evaluation.metrics import cluster_sums, frequency_bands, summary_of


def _scores(loss, rank=None):
    loss = np.asarray(loss, float)
    rank = np.ones(len(loss), int) if rank is None else np.asarray(rank)
    return Scores(-loss, rank == 1, rank)


def test_the_summary_holds_the_means_over_predictions():
    ids, chosen = np.array([[5, 6], [7, 8]]), np.array([[1, 1], [1, 0]])
    asked = positions_of(ids, np.ones((2, 2)), ids, chosen, group=np.array([[30, 30], [10, 0]]))
    scores, sums = _scores([1.0, 2.0, 6.0], [1, 5, 6]), ClusterSums([6.0, 0, 3.0], [], [1, 0, 2])
    found = summary_of(asked, scores, asked.group, 30 / 90, 0.01, sums)
    assert found.loss == pytest.approx(3.0)
    assert found.perplexity == pytest.approx(math.exp(3))
    assert (found.accuracy, found.top5_accuracy) == pytest.approx((1 / 3, 2 / 3))
    assert (found.num_predictions, found.num_samples, found.num_groups) == (3, 2, 2)
    assert found.bits_per_character == pytest.approx(3 / math.log(2) * 30 / 90)
    assert found.loss_interval[0] <= found.loss <= found.loss_interval[1]
    assert 0 == found.accuracy_interval[0] < found.accuracy_interval[1] == 1
    # Both predicted groups have 0.6 nats per character, one of them of four times the tokens.
    sums = replace(sums, tokens=[2, 12, 16], characters=[20, 30, 40])
    by_text, bits = summary_of(asked, scores, asked.group, 1 / 3, 0, sums), found.bits_per_character
    assert by_text.bits_per_character == bits != found.bits_per_character_interval[0]
    assert by_text.bits_per_character_interval == pytest.approx((bits, bits))


def test_bands_part_the_predictions_whatever_the_order_of_their_limits():
    # By frequency the ids 2, 0, 1, 3: of equals, the lower id first.
    truth, counts = np.array([2, 0, 1, 3, 3]), np.array([5, 5, 9, 0])
    bands = frequency_bands(truth, _scores([1.0, 2.0, 3.0, 4.0, 6.0]), counts, [3, 1, 3])
    assert [b.label for b in bands] == ["1 to 1", "2 to 3", "4 and rarer"]
    assert [(b.first_rank, b.last_rank) for b in bands] == [(1, 1), (2, 3), (4, None)]
    assert [b.num_predictions for b in bands] == [1, 2, 2]
    assert [b.loss for b in bands] == pytest.approx([1.0, 2.5, 5.0])


def test_of_one_cluster_there_is_no_interval_and_no_verdict():
    less = np.full(3, -1.0)
    found = mean_of(np.zeros(3, int), less).difference
    assert (found.value, found.tone()) == (-1, "even")
    assert found.interval is found.smallest_shown is None
    assert mean_of(np.arange(3), less).difference.tone() == "better"
    assert mean_of(np.arange(3), less).difference.tone(higher_is_better=True) == "worse"


def _clusters(generator, number: int):
    """Sums of losses of mean 3 and counts of `number` clusters, of unequal sizes and hardness."""
    counts = generator.integers(200, 4000, number)
    means = generator.normal(3, 0.3, number)
    return np.column_stack([generator.normal(means * counts, np.sqrt(counts)), counts])


@pytest.mark.parametrize(("number", "least"), [(10, 0.92), (20, 0.93), (150, 0.93)])
def test_the_95_percent_interval_holds_the_truth_in_that_share_of_trials(number, least):
    generator = np.random.default_rng(7)
    ends = [Estimate.of(_clusters(generator, number)).interval for _ in range(2000)]
    assert least <= np.mean([low <= 3 <= high for low, high in ends]) <= 0.97


def test_two_texts_vary_independently():
    generator = np.random.default_rng(0)
    one, other = (Estimate.of(_clusters(generator, number)) for number in (12, 40))
    gap = one - other
    assert gap.value == one.value - other.value
    assert gap.variance == one.variance + other.variance and 11 < gap.freedom < 50
    assert (one - Estimate(3.0, 0.0, 0.0)).interval is None


def test_the_jackknife_of_a_mean_is_its_usual_standard_error():
    values = np.random.default_rng(0).normal(0, 1, 50)
    estimate = Estimate.of(np.column_stack([values, np.ones(50)]))
    assert estimate.variance == pytest.approx(values.var(ddof=1) / 50)
    reach = 2.0096 * (values.var(ddof=1) / 50) ** 0.5
    assert estimate.interval == pytest.approx((values.mean() - reach, values.mean() + reach), 1e-4)


@pytest.mark.parametrize("clusters", [1, 7, 23])
def test_bundles_of_clusters_are_few_and_lose_nothing(clusters, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_CLUSTER_SUMS", 7)
    number = np.repeat(np.arange(clusters), 3)
    asked = Positions(number, number, number, number, number)
    scores = _scores(np.arange(3.0 * clusters))
    found = cluster_sums(Clusters(asked.sample, asked.group, "author", None), scores)
    assert len(found.loss) == min(clusters, 7)
    assert sum(found.loss) == scores.loss.sum() and sum(found.predictions) == len(scores)

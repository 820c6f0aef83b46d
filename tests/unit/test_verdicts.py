from mlm.evaluation.metrics import Difference
from mlm.evaluation.verdicts import (
    against_baseline,
    between_train_and_test,
    on_calibration,
    on_groups,
    on_size,
)


def _difference(mean, low, high):
    return Difference(mean, low, high, 0.95)


def _said(tone, found):
    """The words of a verdict, which must be of that tone."""
    assert found.tone == tone
    return found.text


def test_a_difference_within_the_interval_is_even_and_no_improvement():
    found = against_baseline("the unigram baseline", _difference(-0.004, -0.02, 0.01))
    said = _said("even", found)
    assert said.startswith("Not better than the unigram baseline: the difference of 0.004 nats is")
    assert "within the confidence interval" in said


def test_better_and_worse_are_told_apart():
    better = _said("better", against_baseline("X", _difference(-0.5, -0.6, -0.4)))
    assert better.startswith("Better than X by 0.500")
    worse = _said("worse", against_baseline("X", _difference(0.5, 0.4, 0.6)))
    assert "worse by 0.500" in worse


def test_the_interval_of_an_improvement_is_written_as_sizes():
    assert "0.400 to 0.600" in against_baseline("X", _difference(-0.5, -0.6, -0.4)).text


def test_a_memorised_train_split_is_called_so():
    said = _said("worse", between_train_and_test(6.0, 1.0, _difference(5.0, 4.8, 5.2)))
    assert said.startswith("Memorised: the loss on train is 5.000 nats below the loss on test")


def test_a_small_gap_is_not_called_memorising():
    said = _said("even", between_train_and_test(4.0, 3.9, _difference(0.1, 0.05, 0.15)))
    assert said.startswith("Slightly better on train")
    said = _said("better", between_train_and_test(4.0, 3.99, _difference(0.01, -0.05, 0.06)))
    assert said.startswith("No gap")
    said = _said("even", between_train_and_test(4.0, 4.5, _difference(-0.5, -0.7, -0.3)))
    assert said.startswith("Better on test")


def test_calibration_is_mentioned_where_it_is_off():
    assert on_calibration(0.01, 0.4, 0.39) is None
    assert _said("even", on_calibration(0.2, 0.6, 0.4)).startswith("Overconfident")
    assert _said("even", on_calibration(0.2, 0.4, 0.6)).startswith("Underconfident")


def test_too_few_groups_are_said_to_make_the_intervals_optimistic():
    assert on_groups("speech", 20) is None
    said = _said("even", on_groups("speech", 12))
    assert said.startswith("Few groups:") and "12 groups (speech)" in said and "optimistic" in said
    assert _said("even", on_groups("speech", 1)).startswith("One group:")
    assert "these shards do not say" in _said("even", on_groups(None, 5000))


def test_few_predictions_are_mentioned():
    assert on_size(5000, 300) is None
    assert "12 in 3 samples" in _said("even", on_size(12, 3))

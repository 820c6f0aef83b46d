import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm.evaluation.calibration import calibration_bins, expected_calibration_error


def test_a_model_that_is_as_right_as_it_is_sure_has_no_error():
    generator = np.random.default_rng(0)
    confidence = generator.random(200_000)
    correct = generator.random(200_000) < confidence
    bins = calibration_bins(confidence, correct, 10)
    assert expected_calibration_error(bins) < 0.01


def test_the_error_is_the_weighted_gap_between_confidence_and_accuracy():
    # 3 of 4 right at 0.9, 0 of 1 right at 0.3: (4 × 0.15 + 1 × 0.3) / 5.
    bins = calibration_bins(np.array([0.9] * 4 + [0.3]), np.array([1, 1, 1, 0, 0]), 10)
    assert expected_calibration_error(bins) == pytest.approx(0.18)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50),
    st.integers(2, 20),
)
def test_every_prediction_is_in_the_one_bin_that_holds_its_confidence(pairs, count):
    confidence, correct = np.array([p for p, _ in pairs]), np.array([c for _, c in pairs])
    bins = calibration_bins(confidence, correct, count)
    assert sum(b.num_predictions for b in bins) == len(pairs)
    for b in bins:
        if b.num_predictions:
            assert b.low - 1e-9 <= b.confidence <= b.high + 1e-9
        else:
            assert b.confidence is None and b.accuracy is None


def test_the_edges_0_and_1_have_a_bin():
    bins = calibration_bins(np.array([0.0, 1.0, 1.0000001]), np.array([0, 1, 1]), 4)
    assert [b.num_predictions for b in bins] == [1, 0, 0, 2]

"""Which classes the softmax of a step adds up."""

import numpy as np
import pytest

from mlm.model.masked_loss import drawn_classes, strata

VOCABULARY = 30


@pytest.mark.parametrize("vocabulary, classes", [(30, 12), (8_000, 2_000), (250_000, 2_000)])
def test_strata_hold_every_id_once_and_are_no_more_than_asked(vocabulary, classes):
    starts, sizes = strata(vocabulary, classes)
    assert 0.8 * classes < len(starts) <= classes
    assert starts[0] == 0 and (np.diff(starts) == sizes[:-1]).all()
    assert starts[-1] + sizes[-1] == vocabulary
    # Frequent ids alone, and no stratum larger than twice the one before.
    assert (sizes[: classes // 5] == 1).all()
    assert (sizes[1:-1] <= 2 * sizes[:-2]).all()


def test_a_vocabulary_no_larger_than_asked_is_summed_whole():
    for classes in (None, VOCABULARY, 64):
        starts, sizes = strata(VOCABULARY, classes)
        assert (starts == np.arange(VOCABULARY)).all() and (sizes == 1).all()


def test_each_step_draws_one_class_of_each_stratum_by_the_seed_and_the_step_alone():
    starts, sizes = strata(1000, 100)
    drawn = np.array([drawn_classes(3, step, starts, sizes) for step in range(4000)])
    assert drawn.dtype == np.int32
    assert (drawn >= starts).all() and (drawn < starts + sizes).all()
    assert np.array_equal(drawn_classes(3, 17, starts, sizes), drawn[17])
    assert not np.array_equal(drawn_classes(4, 17, starts, sizes), drawn[17])
    # Each class of a stratum as often as another, whatever the strata beside it draw.
    last, size = drawn[:, -1] - starts[-1], int(sizes[-1])
    counts, expected = np.bincount(last, minlength=size), len(drawn) / size
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected)
    beside = np.corrcoef(drawn[:, -1], drawn[:, -2])[0, 1]
    assert abs(beside) < 5 / np.sqrt(len(drawn))

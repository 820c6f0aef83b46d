"""The order of the data and whole batches: what needs no JAX."""

import numpy as np

from mlm.finetuning.fold_engine import batches, epoch_order


def test_an_epochs_order_depends_on_seed_fold_and_epoch_alone():
    one = epoch_order(50, seed=1, fold=2, epoch=3)
    assert np.array_equal(one, epoch_order(50, 1, 2, 3))
    assert sorted(one) == list(range(50))
    others = [epoch_order(50, 0, 2, 3), epoch_order(50, 1, 1, 3), epoch_order(50, 1, 2, 4)]
    assert not any(np.array_equal(one, other) for other in others)


def test_no_example_is_dropped_and_none_counts_twice():
    order = np.random.default_rng(0).permutation(21)
    found = list(batches(order, 8))
    assert [len(rows) for rows, _ in found] == [8, 8, 8]
    counted = np.concatenate([rows[weights > 0] for rows, weights in found])
    assert np.array_equal(counted, order)
    assert [weights.sum() for _, weights in found] == [8, 8, 5]

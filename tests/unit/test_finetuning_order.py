"""The order of the data, whole batches, and names of weights: what needs no JAX."""

import numpy as np

from mlm.finetuning.finetuning_step import batches, epoch_order
from mlm.finetuning.flax_model import pytorch_name, pytorch_value


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


def test_names_and_layout_follow_pytorch():
    kernel = np.arange(6).reshape(2, 3)
    names = [pytorch_name(("classifier", "dense", own)) for own in ("bias", "kernel")]
    assert names == ["classifier.dense.bias", "classifier.dense.weight"]
    assert pytorch_value(("dense", "kernel"), kernel).shape == (3, 2)
    assert pytorch_value(("words", "embedding"), kernel).shape == (2, 3)

from dataclasses import replace

import numpy as np
from small_pretraining import small_pretraining


def _asked(run) -> dict[str, np.ndarray]:
    from mlm.training.in_tensorflow.engine import validation_dataset

    batches = list(validation_dataset(run).as_numpy_iterator())
    return {key: np.concatenate([b[key] for b in batches]) for key in batches[0]}


def test_validation_masks_are_the_same_whatever_the_seed_of_the_run(tmp_path):
    first, other = (_asked(small_pretraining(tmp_path, seed=seed)) for seed in (1, 7))
    for key, value in first.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)


def test_validation_looks_at_samples_of_the_whole_split(tmp_path):
    asked = _asked(small_pretraining(tmp_path, validation={"samples": 6}))["sample_index"]
    assert asked[asked >= 0].tolist() == [0, 10, 20, 30, 40, 50], "of 60"


def test_a_validation_pass_takes_one_batch_of_a_replica_at_a_time(tmp_path):
    """All accumulated batches at once would not fit where one of them does."""
    run = small_pretraining(tmp_path, accumulated=8, per_replica_batch_size=4)
    run = replace(run, replicas=2)
    assert (run.batch_size, run.validation_batch_size) == (4 * 8 * 2, 4 * 2)

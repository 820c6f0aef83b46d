from pathlib import Path

import numpy as np
import pytest
from small_run import LENGTH, VOCABULARY, write_split

from mlm.foundations.errors import MlmError
from mlm.foundations.tensorflow_setup import tf
from mlm.samples.input_pipeline import reading_in_words, training_batches, validation_batches
from mlm.samples.masking import MaskingPlan
from mlm.samples.split_samples import ShardFiles
from mlm.samples.stored_batches import BatchOrder

COUNTS = (17, 5, 30, 9, 1)
PLAN = MaskingPlan(
    mlm_probability=0.3,
    mask_token=0.8,
    random_token=0.1,
    mask_id=4,
    special_ids=(0, 1, 2, 3, 4),
    vocabulary_size=VOCABULARY,
    sequence_length=LENGTH,
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> ShardFiles:
    return ShardFiles.of(write_split(tmp_path_factory.mktemp("shards"), "train", COUNTS))


def stream(shards, *, batch=4, start=0, steps=40, window=20, seed=3):
    tf.random.set_seed(1)
    order = BatchOrder(seed, batch, window, start, steps)
    return list(training_batches(shards, PLAN, order).as_numpy_iterator())


def flat(batches, key="labels"):
    return np.concatenate([b[key] for b in batches])


@pytest.mark.parametrize("start", [16, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 39))])
def test_a_stream_taken_up_again_is_the_uninterrupted_one(shards, start):
    whole, rest = stream(shards), stream(shards, start=start)
    assert len(rest) == 40 - start
    for expected, found in zip(whole[start:], rest, strict=True):
        assert expected.keys() == found.keys()
        for key in expected:
            np.testing.assert_array_equal(expected[key], found[key])


def test_evaluation_drops_no_sample_and_masks_alike_at_any_batch_size(shards):
    found = {}
    for size in (1, 7, 100):
        batches = list(
            validation_batches(shards, PLAN, seed=5, batch_size=size).as_numpy_iterator()
        )
        assert all(b["input_ids"].shape[0] == size for b in batches)
        real = flat(batches, "sample_index") >= 0
        assert flat(batches, "weights")[~real].sum() == 0
        found[size] = {k: flat(batches, k)[real] for k in batches[0]}
    np.testing.assert_array_equal(found[1]["sample_index"], np.arange(62))
    for size in (7, 100):
        for key, value in found[1].items():
            np.testing.assert_array_equal(value, found[size][key])


def test_a_shard_that_is_damaged_while_it_is_read_is_reported_in_words(tmp_path):
    shards = ShardFiles.of(write_split(tmp_path, "train", COUNTS))
    for file in (Path(shard.path) for shard in shards.shards):
        data = bytearray(file.read_bytes())
        data[40] ^= 1
        file.write_bytes(data)
    for read in (stream, lambda s: list(validation_batches(s, PLAN, seed=5, batch_size=8))):
        with pytest.raises(MlmError, match="record 0"), reading_in_words():
            read(shards)

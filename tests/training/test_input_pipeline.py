import dataclasses
from pathlib import Path

import numpy as np
import pytest
from small_run import LENGTH, VOCABULARY, write_split

from mlm.foundations.errors import MlmError
from mlm.foundations.tensorflow_setup import tf
from mlm.samples.input_pipeline import reading_in_words, training_batches, validation_batches
from mlm.samples.masking import MaskingPlan
from mlm.samples.split_samples import ShardFiles, evenly_spread
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


def first_tokens(batches) -> list[int]:
    """What each sample is known by: its first two ordinary tokens, unmasked."""
    ids = flat(batches, "input_ids").copy()
    np.put_along_axis(ids, flat(batches, "positions"), flat(batches), axis=1)
    return [int(i) for i in ids[:, 1] * 100 + ids[:, 2]]


def test_an_epoch_is_a_permutation_of_the_samples(shards):
    # Three epochs of 62 samples: 93 batches of 2.
    batches = stream(shards, batch=2, steps=93)
    assert all(b["weights"].sum() == pytest.approx(1, abs=1e-6) for b in batches)
    order = first_tokens(batches)
    epochs = [order[i : i + 62] for i in (0, 62, 124)]
    assert all(sorted(epoch) == sorted(epochs[0]) and len(set(epoch)) == 62 for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


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


@pytest.mark.parametrize(
    "count", [50, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 100))]
)
def test_a_part_of_a_split_is_spread_over_it_and_keeps_its_masks(shards, count):
    (whole,) = validation_batches(shards, PLAN, seed=5, batch_size=62).as_numpy_iterator()
    dataset = validation_batches(shards, PLAN, seed=5, batch_size=4, samples=count)
    for _ in range(2):
        batches = list(dataset.as_numpy_iterator())
        real = flat(batches, "sample_index") >= 0
        chosen = flat(batches, "sample_index")[real]
        np.testing.assert_array_equal(chosen, evenly_spread(62, count))
        for key in ("input_ids", "positions", "labels", "attention_mask", "weights"):
            np.testing.assert_array_equal(flat(batches, key)[real], whole[key][chosen])


def test_a_shard_that_is_damaged_while_it_is_read_is_reported_in_words(tmp_path):
    shards = ShardFiles.of(write_split(tmp_path, "train", COUNTS))
    for file in (Path(shard.path) for shard in shards.shards):
        data = bytearray(file.read_bytes())
        data[40] ^= 1
        file.write_bytes(data)
    for read in (stream, lambda s: list(validation_batches(s, PLAN, seed=5, batch_size=8))):
        with pytest.raises(MlmError, match="record 0"), reading_in_words():
            read(shards)


def test_more_samples_than_masks_can_be_keyed_for_are_refused(tmp_path):
    manifest = write_split(tmp_path, "train", (3,))
    with pytest.raises(MlmError, match="32-bit"):
        ShardFiles.of(dataclasses.replace(manifest, num_samples=2**32), tmp_path)

"""Shards read from the middle."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from mlm.foundations.errors import MlmError
from mlm.samples.blocks import ReadableBlocks, ShardBlocks
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.tfrecord import SampleWriter, read_records

SAMPLES = 2 * BLOCK_SAMPLES + 300


@pytest.fixture(params=["none", "gzip"])
def shard(request, tmp_path):
    """A shard of three blocks, written in batches that end anywhere."""
    path = tmp_path / "a.tfrecord"
    ids = np.random.default_rng(0).integers(0, 40_000, (SAMPLES, 8))
    with SampleWriter(path, request.param) as writer:
        for start in range(0, SAMPLES, 700):
            part = ids[start : start + 700]
            writer.write(part, np.full(len(part), 8))
    return ShardBlocks(str(path), path.name, SAMPLES, request.param, writer.block_offsets)


def all_records(shard):
    return list(read_records(io.BytesIO(Path(shard.path).read_bytes()), shard.name))


def test_blocks_one_after_the_other_are_the_whole_file(shard):
    whole = all_records(shard)
    assert len(whole) == SAMPLES
    blocks = [shard.read(number) for number in range(shard.num_blocks)]
    assert [len(block) for block in blocks] == [BLOCK_SAMPLES, BLOCK_SAMPLES, 300]
    assert [record for block in blocks for record in block] == whole


def test_tensorflow_reads_the_whole_file(shard):
    from mlm.foundations.framework import tf

    kind = "GZIP" if shard.compression == "gzip" else ""
    found = list(tf.data.TFRecordDataset(shard.path, kind).as_numpy_iterator())
    assert found == all_records(shard)


@pytest.mark.parametrize("offsets", [None, (0,)])
def test_shards_without_offsets_are_unpacked_and_this_is_said(shard, capsys, offsets):
    readable = ReadableBlocks((shard, dataclasses.replace(shard, offsets=offsets)))
    assert readable[1].read(1) == shard.read(1)
    said = capsys.readouterr().err
    assert said.count("a.tfrecord: no offsets of blocks in the manifest; unpacked into") == 1
    unpacked = Path(readable[1].path)
    assert unpacked.exists()
    del readable
    assert not unpacked.exists()


def test_a_damaged_block_is_named_and_the_others_can_be_read(shard):
    data = bytearray(Path(shard.path).read_bytes())
    data[shard.offsets[1] + 40] ^= 1
    Path(shard.path).write_bytes(data)
    with pytest.raises(MlmError, match=r"a\.tfrecord: block 1, from byte \d+ on: .*Delete it"):
        shard.read(1)
    assert len(shard.read(2)) == 300


def test_a_block_with_another_number_of_records_is_refused(shard):
    """Also where it has one, which could fill a whole block."""
    last = dataclasses.replace(shard, num_samples=SAMPLES + 1)
    with pytest.raises(MlmError, match="300 records, expected 301"):
        last.read(2)
    with pytest.raises(MlmError, match=f"{SAMPLES} records, expected 1"):
        dataclasses.replace(shard, num_samples=1).read(0)


def test_a_shard_that_vanished_is_named(shard):
    Path(shard.path).unlink()
    with pytest.raises(MlmError, match=r"a\.tfrecord: block 0.*cannot be read"):
        shard.read(0)
    with pytest.raises(MlmError, match=r"a\.tfrecord: cannot be read"):
        ReadableBlocks((dataclasses.replace(shard, offsets=None),))


@pytest.mark.parametrize(
    "damage, words",
    [(lambda data: data[:-900], "a.tfrecord"), (lambda data: b"text", "a.tfrecord")],
)
def test_a_damaged_shard_without_offsets_is_named(shard, damage, words):
    Path(shard.path).write_bytes(damage(Path(shard.path).read_bytes()))
    with pytest.raises(MlmError, match=words):
        ReadableBlocks((dataclasses.replace(shard, offsets=None),))


def test_a_shard_without_offsets_needs_as_many_records_as_its_manifest_says(shard):
    with pytest.raises(MlmError, match=f"{SAMPLES} records, expected {SAMPLES - 1}"):
        ReadableBlocks((dataclasses.replace(shard, offsets=None, num_samples=SAMPLES - 1),))

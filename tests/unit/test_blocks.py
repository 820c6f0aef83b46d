"""Shards read from the middle."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from mlm.foundations.errors import MlmError
from mlm.shards.blocks import ReadableBlocks, ShardBlocks
from mlm.shards.tfrecord import BLOCK_SAMPLES, SampleWriter, read_records

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
    blocks = [list(shard.read(number)) for number in range(shard.num_blocks)]
    assert [len(block) for block in blocks] == [BLOCK_SAMPLES, BLOCK_SAMPLES, 300]
    assert [record for block in blocks for record in block] == whole


def test_tensorflow_reads_the_whole_file(shard):
    from mlm.foundations.framework import tf

    kind = "GZIP" if shard.compression == "gzip" else ""
    found = list(tf.data.TFRecordDataset(shard.path, kind).as_numpy_iterator())
    assert found == all_records(shard)


@pytest.mark.parametrize("offsets", [None, (0,)])
def test_shards_without_offsets_are_read_through_once_and_this_is_said(shard, capsys, offsets):
    readable = ReadableBlocks((shard, dataclasses.replace(shard, offsets=offsets)))
    assert list(readable[1].read(1)) == list(shard.read(1))
    said = capsys.readouterr().err
    assert said.count("a.tfrecord: its manifest has no offsets of blocks") == 1
    assert ("unpacked (0 MB in" in said) == (shard.compression == "gzip")
    unpacked = Path(readable[1].path)
    del readable
    assert unpacked.exists() == (shard.compression == "none")


def test_a_damaged_block_is_named_and_the_others_can_be_read(shard):
    data = bytearray(Path(shard.path).read_bytes())
    data[shard.offsets[1] + 40] ^= 1
    Path(shard.path).write_bytes(data)
    with pytest.raises(MlmError, match=r"a\.tfrecord: block 1: "):
        list(shard.read(1))
    assert len(list(shard.read(2))) == 300

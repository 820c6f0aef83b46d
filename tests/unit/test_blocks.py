"""Shards read from the middle."""

import io
from pathlib import Path

import numpy as np
import pytest

from mlm.foundations.errors import MlmError
from mlm.samples.sample_order import BLOCK_SAMPLES
from mlm.samples.shard_reading import read_block
from mlm.samples.tfrecord import SampleWriter, read_records

SAMPLES = 2 * BLOCK_SAMPLES + 300


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "a.tfrecord"
    ids = np.random.default_rng(0).integers(0, 40_000, (SAMPLES, 8))
    with SampleWriter(path) as writer:
        for start in range(0, SAMPLES, 700):
            part = ids[start : start + 700]
            writer.write(part, np.full(len(part), 8))
    return writer.shard(path)


def test_blocks_one_after_the_other_are_the_whole_file(shard):
    whole = list(read_records(io.BytesIO(Path(shard.path).read_bytes()), shard.name))
    assert len(whole) == SAMPLES
    blocks = [read_block(shard, number) for number in range(len(shard.block_offsets))]
    assert [len(block) for block in blocks] == [BLOCK_SAMPLES, BLOCK_SAMPLES, 300]
    assert [record for block in blocks for record in block] == whole


def test_a_damaged_block_is_named_and_the_others_can_be_read(shard):
    path = Path(shard.path)
    data = bytearray(path.read_bytes())
    data[shard.block_offsets[1] + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        MlmError, match=r"a\.tfrecord is not what .*block 1, from byte \d+ on: .*Delete it"
    ):
        read_block(shard, 1)
    assert len(read_block(shard, 2)) == 300
    path.unlink()
    with pytest.raises(MlmError, match=r"a\.tfrecord is not what .*No such file"):
        read_block(shard, 0)

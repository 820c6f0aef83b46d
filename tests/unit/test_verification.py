import numpy as np
from test_manifests import made  # noqa: F401
from tests.conftest import refusal

from mlm.samples.tfrecord import SampleWriter
from mlm.samples.verification import (
    SampleSchema,
    raise_problems,
    scan_shard,
    verify_split,
)

SCHEMA = SampleSchema(sequence_length=8, vocabulary_size=0x110005, pad_id=1)


def test_every_problem_of_every_shard_is_named(made):  # noqa: F811
    directory, summaries, manifest = made
    files = [directory / path for path, _ in summaries]
    files[0].unlink()
    damaged = bytearray(files[1].read_bytes())
    damaged[-3] ^= 1
    files[1].write_bytes(bytes(damaged))
    files[2].write_bytes(files[2].read_bytes()[:-5])
    result = verify_split(manifest, SCHEMA, directory)
    text = refusal(raise_problems, [result])
    assert f"{files[0].name}: is missing" in text
    assert f"{files[1].name}: its content changed" in text
    last = manifest.shards[1].num_samples - 1
    assert f"{files[1].name}: record {last} at byte" in text
    assert f"{files[2].name}: has {manifest.shards[2].num_bytes - 5} bytes" in text
    assert f"{files[2].name}: num_samples is {manifest.shards[2].num_samples - 1}" in text


def test_shards_as_they_were_made_have_no_problem(made):  # noqa: F811
    directory, _, manifest = made
    result = verify_split(manifest, SCHEMA, directory)
    assert result.problems == ()
    assert (result.num_samples, result.num_tokens) == (manifest.num_samples, manifest.num_tokens)


def test_ids_and_groups_that_should_not_be_there_are_named(tmp_path):
    rows, real = [[0, 5, 99, 2], [0, 100, 5, 2], [0, 5, 2, 7]], [4, 4, 3]
    with SampleWriter(tmp_path / "a") as writer:
        writer.write(np.array(rows), np.array(real))
    outside, padded = scan_shard(tmp_path / "a", SampleSchema(4, 100, 1)).problems
    assert outside.startswith("record 1: input_ids holds 100")
    assert padded.startswith("record 2: input_ids holds 7")

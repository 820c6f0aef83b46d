import numpy as np
from test_manifests import made  # noqa: F401
from tests.conftest import refusal

from mlm.samples.artefacts import Verification
from mlm.samples.tfrecord import SampleWriter
from mlm.samples.verification import (
    SampleSchema,
    raise_problems,
    scan_shard,
    verification_text,
    verify_split,
)

SCHEMA = SampleSchema(sequence_length=8, vocabulary_size=0x110005, pad_id=1)


def written(path, rows, real=None):
    rows = np.array(rows)
    with SampleWriter(path) as writer:
        writer.write(rows, np.full(len(rows), rows.shape[1]) if real is None else np.array(real))
    return path


def test_shards_as_they_were_made_have_no_problem(made, tmp_path):  # noqa: F811
    directory, _, manifest = made
    result = verify_split(manifest, SCHEMA, directory)
    assert result.problems == ()
    raise_problems([result])
    assert (result.num_samples, result.num_tokens) == (manifest.num_samples, manifest.num_tokens)
    said = verification_text([result])
    assert "3 shards" in said and "as the manifest says" in said
    Verification({"train": result}).write(tmp_path / "verification.json")
    assert Verification.read(tmp_path / "verification.json").splits == {"train": result}


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


def test_samples_whose_groups_are_missing_are_named(made):  # noqa: F811
    directory, summaries, manifest = made
    file = directory / summaries[0][0]
    count = manifest.shards[0].num_samples
    written(file, np.full((count, 8), 5))
    problems = verify_split(manifest, SCHEMA, directory).problems
    assert any(f"{file.name}: record 0: span_groups is missing" in p for p in problems)


def test_an_id_that_should_not_be_there_is_named(tmp_path):
    file = written(tmp_path / "a", [[0, 5, 99, 2], [0, 100, 5, 2], [0, 5, 2, 7]], [4, 4, 3])
    assert scan_shard(file, SampleSchema(4, 100, 1)).problems == [
        "record 1: input_ids holds 100, outside the vocabulary of 100 ids",
        "record 2: input_ids holds 7 where the mask is 0; the padding id is 1",
    ]

import dataclasses
import json

import pytest
from report_artefacts import corpus
from test_sharding import corpus_of, make

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.artefacts import ShardSummary
from mlm.samples.manifest_merging import merged_manifest
from mlm.samples.manifests import Manifest, check_shards

TEXTS = [f"document number {i}" for i in range(10)]


@pytest.fixture
def made(tmp_path):
    texts = corpus_of(tmp_path, TEXTS)
    files = [make(tmp_path, texts, i, 3)[0] for i in range(3)]
    summaries = [(f.name, ShardSummary.read(f.with_suffix(".json"))) for f in files]
    manifest = remerge(tmp_path, summaries)
    manifest.write(tmp_path / "train.json")
    return tmp_path, summaries, manifest


def remerge(directory, summaries):
    file = directory / "train.parquet"
    entry = {"name": file.name, "documents": 10, "bytes": file.stat().st_size}
    files = [entry | {"sha256": file_sha256(file)}]
    split = corpus("train", documents=10, group_by="document", files=files)
    return merged_manifest("train", summaries, split, directory / "tokenizer.json", directory)


def test_the_manifest_has_the_totals_of_the_shards(made):
    directory, _, manifest = made
    assert Manifest.read(directory / "train.json") == manifest
    check_shards(manifest, directory)
    found = json.loads((directory / "train.json").read_text())
    for key in ("num_samples", "num_tokens", "num_padding"):
        assert found[key] == sum(s[key] for s in found["shards"]) > 0
    assert found["num_tokens"] == sum(len(t) + 2 for t in TEXTS)
    assert found["num_tokens"] + found["num_padding"] == found["num_samples"] * 8
    assert found["documents"] == 10 and found["format_version"] == 1


def test_a_changed_shard_is_noticed_and_named(made):
    directory, summaries, manifest = made
    file = directory / summaries[1][0]
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(MlmError, match=rf"{file.name}: its content changed") as caught:
        check_shards(manifest, directory)
    assert summaries[0][0] not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"tokens_in": 7}, "num_tokens"),
        ({"documents": 1}, "first_document"),
        ({"num_bytes": 1}, "num_bytes"),
        (None, "6 of the corpus's 10 documents"),
    ],
)
def test_shards_that_do_not_belong_together_are_no_manifest(made, change, key):
    directory, (first, (path, summary), last), _ = made
    changed = [first, (path, summary)]
    if change:
        changed = [first, (path, dataclasses.replace(summary, **change)), last]
    with pytest.raises(MlmError, match=key):
        remerge(directory, changed)

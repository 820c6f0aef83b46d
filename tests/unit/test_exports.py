import json
import subprocess
from pathlib import Path

import mlcroissant
import pytest
from report_results import results_in

from mlm.config.publish import Publish
from mlm.publishing.exports import checksums, croissant
from mlm.samples.manifests import Manifest

SOURCE = "the letters of <somebody>"


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("exports")
    results_in(root, {"base": {}})
    return root / "results"


def test_croissants_own_reader_finds_every_shard(results, tmp_path, caplog):
    section = Publish.of_param({"dataset": "me/it", "license": "cc0-1.0", "language": "en"})
    manifests = {
        split: Manifest.read(results / "manifests" / f"{split}.json")
        for split in ("train", "validation", "test")
    }
    found = croissant("My title: it’s long", SOURCE, section, manifests)
    (tmp_path / "croissant.jsonld").write_text(json.dumps(found))
    read = mlcroissant.Dataset(jsonld=tmp_path / "croissant.jsonld").metadata
    shards = [shard for manifest in manifests.values() for shard in manifest.shards]
    assert [f.sha256 for f in read.distribution] == [s.sha256 for s in shards]
    assert [f.content_url for f in read.distribution] == [s.path for s in shards]
    assert read.url == "https://huggingface.co/datasets/me/it"
    assert "@context" not in caplog.text


def test_checksums_are_what_sha256sum_reads(tmp_path):
    (tmp_path / "a b").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    check = ["sha256sum", "--check", "--strict", "-"]
    for digest, status in ((empty, 0), ("0" * 64, 1)):
        listed = checksums({"a b": digest})
        assert subprocess.run(check, input=listed, text=True, cwd=tmp_path).returncode == status

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import mlcroissant
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from report_results import results_in

from mlm.config.publish import Publish
from mlm.publishing.exports import bill_of_materials, checksums, croissant
from mlm.samples.manifests import Manifest
from mlm.training.artefacts import Training, WarmStartFigures

LOCK = (Path(__file__).parents[2] / "envs" / "requirements.txt").read_text()
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


def test_a_bill_of_materials_is_valid_and_names_weights_text_and_packages(results):
    training = Training.read(results / "runs" / "base" / "training.json")
    section = Publish.of_param({"license": "apache-2.0"})
    corpus = {"results/corpus/train.parquet": "a" * 64}
    bill = bill_of_materials(training, SOURCE, section, corpus, LOCK)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    model, (text, *packages) = bill["metadata"]["component"], bill["components"]
    assert model["hashes"][0]["content"] == training.digests.model
    assert (text["name"], text["hashes"][0]["content"]) == (SOURCE, "a" * 64)
    pinned = [line.split("==")[0] for line in LOCK.splitlines() if "==" in line.split("#")[0]]
    assert {package["name"] for package in packages} == set(pinned)
    assert all(package["externalReferences"][0]["hashes"] for package in packages)
    assert bill == bill_of_materials(training, SOURCE, section, corpus, LOCK)


def test_a_bill_of_materials_names_the_checkpoint_that_a_model_started_from(results):
    training = Training.read(results / "runs" / "base" / "training.json")
    base = WarmStartFigures("them/encoder@" + "1" * 40, "b" * 64, "mit", [], [], True, {}, 4.0)
    adapted = replace(training, warm_start=base)
    section = Publish.of_param({"license": Publish().license})
    bill = bill_of_materials(adapted, SOURCE, section, {"train.parquet": "a" * 64}, LOCK)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    model = bill["metadata"]["component"]
    (ancestor,) = model["pedigree"]["ancestors"]
    assert (ancestor["name"], ancestor["hashes"][0]["content"]) == (base.checkpoint, "b" * 64)
    assert model["licenses"] == ancestor["licenses"] == [{"license": {"name": "mit"}}]
    own = Publish.of_param({"license": "cc0-1.0"})
    model = bill_of_materials(adapted, SOURCE, own, {}, LOCK)["metadata"]["component"]
    assert model["licenses"] == [{"license": {"name": "cc0-1.0"}}]
    assert model["pedigree"]["ancestors"] == [ancestor]


def test_checksums_are_what_sha256sum_reads(tmp_path):
    (tmp_path / "a b").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    check = ["sha256sum", "--check", "--strict", "-"]
    for digest, status in ((empty, 0), ("0" * 64, 1)):
        listed = checksums({"a b": digest})
        assert subprocess.run(check, input=listed, text=True, cwd=tmp_path).returncode == status

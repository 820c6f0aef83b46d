import json

import mlcroissant
from report_results import results_in

from mlm.config.publish import Publish
from mlm.publishing.metadata import croissant
from mlm.samples.manifests import Manifest

SPLITS = ("train", "validation", "test")


def test_croissants_own_reader_finds_every_shard(tmp_path, caplog):
    results_in(tmp_path, {"base": {}})
    manifests = {s: Manifest.read(tmp_path / f"results/manifests/{s}.json") for s in SPLITS}
    section = Publish(dataset="me/it", license="cc0-1.0", language="en")
    metadata = croissant("My title: it’s long", "the letters of <somebody>", section, manifests)
    (tmp_path / "croissant.jsonld").write_text(json.dumps(metadata))
    read = mlcroissant.Dataset(jsonld=tmp_path / "croissant.jsonld").metadata
    shards = [(s.path, s.sha256) for manifest in manifests.values() for s in manifest.shards]
    assert [(f.content_url, f.sha256) for f in read.distribution] == shards
    assert read.url == "https://huggingface.co/datasets/me/it"
    assert "@context" not in caplog.text

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from corpus_files import build

from mlm.config.fields import is_commit
from mlm.config.resolution import resolve
from mlm.corpus.corpus_building import SPLITS

ROOT = Path(__file__).parents[2]
ARTICLE = """
 = Homarus gammarus =

 Homarus gammarus , known as the European lobster , is a species of <unk> lobster .

 = = Description = =

 It weighs 6 kilograms ( 13 lb ) , <unk> and bears a pair of claws .
 = = Description = =

 = Gold dollar =

 The gold dollar was a coin struck as a regular issue .
"""


@pytest.mark.parametrize("name", ["wikitext-2", "wikitext-103"])
def test_a_hub_preset_is_pinned_and_filters_as_that_of_files(name):
    hub, files = (
        resolve(yaml.safe_load((ROOT / "presets" / f"{preset}.yaml").read_text(encoding="utf-8")))
        for preset in (name, f"{name}-files")
    )
    source = hub["corpus"]["hub"]
    assert is_commit(source["revision"])
    assert source["dataset"] == "Salesforce/wikitext" and source["config"] == f"{name}-raw-v1"
    assert hub["corpus"]["filters"] == files["corpus"]["filters"]
    assert hub["tokenizer"] == files["tokenizer"] and hub["shards"] == files["shards"]


@pytest.mark.parametrize("name", ["wikitext-2", "wikitext-103"])
def test_a_local_copy_is_read_whole_except_for_its_blank_lines(name, here):
    data = Path("data") / name
    data.mkdir(parents=True)
    for split in SPLITS:
        (data / f"{split}.txt").write_text(ARTICLE, encoding="utf-8")
    overlay = yaml.safe_load((ROOT / f"presets/{name}-files.yaml").read_text(encoding="utf-8"))
    lines = [line for line in ARTICLE.split("\n") if line.strip()]
    assert build(overlay["corpus"]) == dict.fromkeys(SPLITS, lines)
    for split in SPLITS:
        groups = pq.read_table(f"results/corpus/{split}.parquet")["group"].to_pylist()
        assert groups == ["Homarus gammarus"] * 5 + ["Gold dollar"] * 2

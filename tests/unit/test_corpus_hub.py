"""The Hub as a source: from caches made here, which the library itself reads."""

import json
import shutil
from pathlib import Path

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import build, described, refused
from tests.conftest import refusal

from mlm.config.corpus import CorpusConfiguration
from mlm.config.overlays import resolve
from mlm.corpus.source_files import Part
from mlm.corpus.sources import open_source

COMMIT, OTHER = "a" * 40, "b" * 40
TEXTS = {
    "train": [f"document {i} 문서 😀" for i in range(40)],
    "validation": ["held out", None, "document 3 문서 😀"],
}


@pytest.fixture(autouse=True)
def offline_in_an_empty_home(here, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", here / "hf" / "datasets")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(here / "hf" / "hub"))


def settings(**hub) -> dict:
    splits = {"train": "train", "validation": "validation", "test": None}
    return {
        "source": "hub",
        "hub": {"dataset": "made/up", "revision": COMMIT, "splits": splits} | hub,
        "held_out": {"test": 0.3},
        "filters": {"normalisation": "none", "min_characters": 1},
    }


def streams(share: int = 0, shares: int = 1) -> dict[str, list]:
    corpus = resolve({"corpus": settings()}).corpus
    configuration = CorpusConfiguration.of(corpus, 1)
    source = open_source(configuration, Part(share=share, shares=shares))
    return {split: list(stream()) for split, stream in source.streams.items()}


def write_data(directory: Path) -> None:
    directory.mkdir(parents=True)
    for split, texts in TEXTS.items():
        table = pa.table({"id": range(len(texts)), "text": pa.array(texts, pa.string())})
        pq.write_table(table, directory / f"{split}.parquet")


def install_cache(commit: str) -> None:
    """Put the library's own cache of the data where it looks for made/up at `commit`."""
    write_data(Path("data"))
    files = {split: f"data/{split}.parquet" for split in TEXTS}
    datasets.load_dataset("parquet", data_files=files, cache_dir="made")
    built = next(Path("made").glob("parquet/*/*/*/dataset_info.json")).parent
    place = Path("hf/datasets/made___up/default/0.0.0") / commit
    shutil.copytree(built, place)
    for file in place.glob("parquet-*.arrow"):
        file.rename(file.with_name(file.name.replace("parquet-", "up-")))
    info = json.loads((place / "dataset_info.json").read_text())
    info |= {"config_name": "default", "dataset_name": "up", "builder_name": "parquet"}
    for split in info["splits"].values():
        split["dataset_name"] = "up"
    (place / "dataset_info.json").write_text(json.dumps(info))


def test_a_dataset_comes_from_an_existing_cache_without_a_network():
    install_cache(COMMIT)
    texts = build(settings(), 1)
    assert texts["validation"] == ["held out", TEXTS["validation"][2]]
    assert set(texts["train"] + texts["test"]) == set(TEXTS["train"]) - {TEXTS["validation"][2]}
    assert 4 < len(texts["test"]) < 20
    found = described("validation")
    assert found["filters"]["empty"] == 1 and found["documents"] == 2
    source = {"kind": "hub", "dataset": "made/up", "config": None, "revision": COMMIT}
    assert found["source"] == source | {"split": "validation"}


@pytest.mark.parametrize("parts", [1, 3, 40])
def test_shares_of_a_dataset_give_each_row_once(parts):
    install_cache(COMMIT)
    whole = streams()
    found = {split: [] for split in whole}
    for part in range(parts):
        for split, documents in streams(part, parts).items():
            found[split] += documents
    assert found == whole and len(whole["train"]) == len(TEXTS["train"])


def test_without_network_and_cache_the_message_says_how_to_provide_the_data():
    message = refused(settings())
    assert f"datasets.load_dataset('made/up', revision='{COMMIT}')" in message
    assert "offline" in message.lower()
    install_cache(OTHER)
    assert f"the cache holds the commit {OTHER} only" in refused(settings())
    write_data(Path("made/up"))
    assert "cache holds the commit" in refused(settings()), "a directory of that name is none"


def test_a_split_or_column_that_is_not_there_is_named_beside_those_that_are():
    install_cache(COMMIT)
    splits = {"train": "training", "validation": "validation", "test": None}
    assert "corpus.hub.splits.train" in refused(settings(splits=splits))
    for column in ("body", "id"):
        assert f"'{column}'" in refused(settings() | {"text_column": column})


@pytest.mark.parametrize("revision", ["main", "v1.0", "b08601e", "B" * 40])
def test_a_revision_that_can_move_is_no_pin(revision):
    corpus = {"source": "hub", "hub": {"dataset": "me/data", "revision": revision}}
    assert "corpus.hub.revision" in refusal(resolve, {"corpus": corpus})

import gzip
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import build_in_one_job, content, in_parts, outputs
from tests.conftest import refusal

from mlm.config.configuration import Configuration
from mlm.config.corpus import CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.config.overlays import resolve
from mlm.corpus import deduplication, mixing_and_writing, spooling
from mlm.corpus.corpus_building import build_corpus, read_part
from mlm.corpus.source_files import Part
from mlm.foundations.errors import MlmError
from mlm.foundations.job import record_job


def texts(count: int, first: int = 0) -> list[str]:
    found = [f"document {n % 70} " + "and more " * (n % 7) for n in range(first, first + count)]
    return ["" if n % 31 == 0 else text for n, text in enumerate(found)]


@pytest.fixture
def sources(here, monkeypatch):
    """Files of several formats, and batches so small that there are many."""
    monkeypatch.setattr(spooling, "BATCH_DOCUMENTS", 8)
    monkeypatch.setattr(mixing_and_writing, "BATCH_DOCUMENTS", 9)
    monkeypatch.setattr(spooling, "_TOGETHER", 99)
    monkeypatch.setattr(deduplication, "_PAIRS", 7)
    data = Path("data")
    data.mkdir()
    (data / "a.txt").write_text("\n".join(texts(60)), encoding="utf-8")
    lines = [json.dumps({"text": text}) for text in texts(50, 40)]
    (data / "b.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with gzip.open(data / "c.txt.gz", "wt") as file:
        file.write("\n\n".join(texts(20, 90)))
    pq.write_table(pa.table({"text": texts(60, 100)}), data / "d.parquet", row_group_size=7)
    (data / "e.csv").write_text('text\n"one\ntwo"\nthree\n', encoding="utf-8")
    return data


def section(**more) -> Configuration:
    return resolve({"corpus": {"source": "files", "files": {"train": ["data/*"]}} | more})


def in_one_job(directory: Path, settings: Configuration) -> None:
    build_in_one_job(settings, *outputs(directory, settings.corpus.count))


@pytest.mark.parametrize(
    "corpus",
    [
        {
            "held_out": {"validation": 0.2, "test": 0.2},
            "filters": {"decontamination": {"also": ["validation", "test"], "words": 9}},
        },
        {"count": 5, "held_out": {"validation": 0.2, "test": 0.2}},
        {
            "files": {
                "train": ["data/a.txt", "data/b.jsonl"],
                # Two files and no more, or each split would be one group.
                "validation": ["data/c.txt.gz", "data/e.csv"],
                "test": ["data/d.parquet", "data/f.txt"],
                "document_per": "paragraph",
            },
            "group_per": "file",
            "filters": {"min_characters": 4, "deduplicate": False},
        },
        {
            "held_out": {"validation": 0.2, "test": 0.2},
            "filters": {
                "quality": {
                    "rules": {"min_words": 4, "max_top_n_grams": [0.95], "curly_bracket": True}
                },
                "decontamination": {"against": ["data/c.txt.gz"]},
            },
        },
        {
            "held_out": {"validation": 0.2, "test": 0.2},
            "filters": {"near_duplicates": True},
        },
    ],
    ids=["held out", "carved", "given", "filtered", "near"],
)
@pytest.mark.parametrize(
    ("parts", "fewest"), [(1, 1), (3, 2), pytest.param(64, 4, marks=pytest.mark.slow)]
)
def test_any_number_of_parts_gives_the_bytes_of_one_job(sources, corpus, parts, fewest):
    alike = [" ".join(f"w{n // 3}x{i}" for i in range(20)) + f" {n}" for n in range(60)]
    Path("data/f.txt").write_text("another\n\ntext\n" + "\n".join(alike))
    settings = section(**corpus)
    in_one_job(Path("one"), settings)
    expected = content(Path("one"))
    assert len(expected) == 5 + settings.corpus.count
    taken = json.loads(expected["train.json"])["filters"]
    on = {"decontamination", "quality", "near_leaked"} & taken.keys()
    assert all(taken[name] > 3 for name in on)
    assert fewest <= in_parts(Path("parts"), settings, parts) <= parts
    assert content(Path("parts")) == expected
    assert not list(Path("parts").rglob(".*"))


BAD = {
    "corpus.count": {"count": 10_000},
    "train is left without a document": {"filters": {"min_characters": 10_000}},
}


@pytest.mark.parametrize("how", ["one job", "parts", "mix"])
@pytest.mark.parametrize("told", BAD)
def test_bad_input_is_told_and_leaves_nothing_half_written(sources, told, how):
    corpus = BAD[told]
    if how == "mix":
        mixed = {n: {"files": {"train": [f"data/{n}.*"]}, "source": "files"} for n in "abd"}
        corpus = corpus | {"source": "mix", "mix": mixed, "files": {}}
    act = in_one_job if how == "one job" else partial(in_parts, parts=3)
    assert told in refusal(act, Path("out"), section(**corpus))
    assert not content(Path("out"))
    assert not [*Path("out").rglob(".*"), *Path("out").rglob("*.parquet")]


def test_what_a_part_left_is_checked_before_it_is_used(here):
    place = Path("results/corpus/parts")
    configuration = CorpusConfiguration.of(section(files={"train": ["a.txt"]}).corpus, 0)
    Path("a.txt").write_text("".join(f"text {i % 40}\n" for i in range(50)))
    record, part = place / "0.json", Part(files={"train": ["a.txt"]})
    read_part(configuration, part, record)
    spools = [record.with_suffix(f".{split}") for split in SPLITS]
    record_job("corpus_read", {}, {}, map(str, [record, *spools]))
    spools[0].write_bytes(spools[0].read_bytes()[:-1] + b"?")
    with pytest.raises(MlmError, match=rf"0.train is damaged.*rm {spools[0]}, then the same"):
        build_corpus(configuration, [part], *outputs(), [record])

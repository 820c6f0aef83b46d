import gzip
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import build_in_one_job, outputs
from tests.conftest import refusal

from mlm.config.configuration import Configuration, corpus_configuration
from mlm.config.resolution import resolve
from mlm.corpus import corpus_writing, near_duplicates, spooling
from mlm.corpus.corpus_building import SPLITS, after_reading, read_part, take_over
from mlm.corpus.corpus_writing import write_file
from mlm.corpus.deduplication import deduplicate
from mlm.corpus.source_files import Part, files_of_sources, planned_parts
from mlm.corpus.spooling import SpooledCorpus, part_record
from mlm.foundations.artefacts import record_job
from mlm.foundations.errors import MlmError


def texts(count: int, first: int = 0) -> list[str]:
    found = [f"document {n % 70} " + "and more " * (n % 7) for n in range(first, first + count)]
    return ["" if n % 31 == 0 else text for n, text in enumerate(found)]


@pytest.fixture
def sources(here, monkeypatch):
    """Files of several formats, and batches so small that there are many."""
    monkeypatch.setattr(spooling, "BATCH_DOCUMENTS", 8)
    monkeypatch.setattr(corpus_writing, "BATCH_DOCUMENTS", 9)
    for name in ("_COMPARED", "_PAIRS", "_CHUNK"):
        monkeypatch.setattr(near_duplicates, name, 7)
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
    build_in_one_job(settings, *outputs(directory, settings.corpus.count.model_dump()))


def in_parts(directory: Path, settings: Configuration, parts: int) -> int:
    """What the jobs of a corpus in parts do, one after the other; how many parts there were."""
    configuration = corpus_configuration(settings)
    files = files_of_sources(configuration.corpus, print)
    section = settings.corpus.model_copy(update={"parts": parts})
    planned = planned_parts(section, files, print)
    place, counts = directory / "parts", settings.corpus.count.model_dump()
    records = [part_record(place / "read", number) for number in range(len(planned))]
    for part, record in zip(planned, records, strict=True):
        read_part(configuration, part, record)
    (place / "written").mkdir()
    descriptions, _ = after_reading(records, configuration, counts, place / "written")
    for split, made in descriptions.items():
        made.write(place / f"{split}.json")
    take_over(place, *outputs(directory, counts), threads=2)
    return len(planned)


def content(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.glob("*") if file.is_file()}


@pytest.mark.parametrize(
    "corpus",
    [
        {
            "held_out": {"validation": 0.2, "test": 0.2},
            "filters": {"decontamination": {"also": ["validation", "test"], "words": 9}},
        },
        {"count": {"train": 5, "test": 2}, "held_out": {"validation": 0.2, "test": 0.2}},
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
                    "rules": {"min_words": 4, "max_top_2_gram": 0.95, "curly_bracket": True}
                },
                "decontamination": {"against": ["data/c.txt.gz"]},
            },
        },
        {
            "held_out": {"validation": 0.2, "test": 0.2},
            "filters": {
                "near_duplicates": {"enabled": True, "words": 2, "threshold": 0.3, "rows": 1}
            },
        },
    ],
    ids=["held out", "carved", "given", "filtered", "near"],
)
@pytest.mark.parametrize(
    ("parts", "fewest"), [(1, 1), (3, 3), pytest.param(64, 4, marks=pytest.mark.slow)]
)
def test_any_number_of_parts_gives_the_bytes_of_one_job(sources, corpus, parts, fewest):
    Path("data/f.txt").write_text("another\n\ntext\n")
    settings = section(**corpus)
    in_one_job(Path("one"), settings)
    expected = content(Path("one"))
    assert len(expected) == 3 + sum(settings.corpus.count.model_dump().values())
    taken = json.loads(expected["train.json"])["filters"]
    on = {"decontamination", "quality", "near_leaked"} & taken.keys()
    assert all(taken[name] > 3 for name in on)
    assert fewest <= in_parts(Path("parts"), settings, parts) <= parts
    assert content(Path("parts")) == expected
    assert not list(Path("parts").rglob(".*"))


ALIKE = {"enabled": True, "words": 1, "rows": 1, "threshold": 0.1, "largest_share": 0.1}
BAD = {
    "corpus.filters.near_duplicates.largest_share": {"near_duplicates": ALIKE},
    "corpus.filters.language.model": {"language": {"model": "data/a.txt", "keep": ["en"]}},
    "train is left without a document": {"min_characters": 10_000},
}


@pytest.mark.parametrize("how", ["one job", "parts", "mix"])
@pytest.mark.parametrize("told", BAD)
def test_bad_input_is_told_and_leaves_nothing_half_written(sources, told, how):
    corpus = {"filters": BAD[told]}
    if how == "mix":
        own = {name: {"files": {"train": [f"data/{name}.*"]}, "source": "files"} for name in "abd"}
        corpus |= {"source": "mix", "mix": own, "files": {}}
    act = in_one_job if how == "one job" else partial(in_parts, parts=3)
    assert told in refusal(act, Path("out"), section(**corpus))
    assert not content(Path("out"))
    assert not [*Path("out").rglob(".*"), *Path("out").rglob("*.parquet")]


@pytest.mark.parametrize("damaged", ["read-00000.digests", "read-00001.train", "removed.verdicts"])
def test_what_a_part_left_is_checked_before_it_is_used(here, damaged):
    place = Path("results/corpus/parts/00002")
    configuration = corpus_configuration(section(files={"train": ["a.txt"]}))
    for number in range(2):
        Path("a.txt").write_text("".join(f"text {number} {i % 40}\n" for i in range(50)))
        record = part_record(place, number)
        read_part(configuration, Part(files={"train": ["a.txt"]}), record)
        outputs = [record, *(record.with_suffix(f".{end}") for end in ("digests", *SPLITS))]
        record_job("corpus_read", {}, {}, map(str, outputs))
    file = place / damaged

    def damage() -> None:
        if file.exists():
            file.write_bytes(file.read_bytes()[:-1] + b"?")

    damage()
    removed = place / "removed.json"
    records = [part_record(place, number) for number in range(2)]
    with pytest.raises(MlmError, match=rf"{damaged} is damaged.*rm {file}, then the same"):
        deduplicate(records, True, True, removed)
        outputs = map(str, [removed, removed.with_suffix(".verdicts")])
        record_job("corpus_deduplicate", {}, {}, outputs)
        damage()
        write_file(SpooledCorpus([removed]), "train", 0, 1, {}, Path("train.json"))

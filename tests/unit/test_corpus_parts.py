import gzip
import io
import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import outputs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import refusal

from mlm.config.corpus import Corpus, Files
from mlm.config.resolution import resolve
from mlm.corpus import corpus_writing, near_clusters, near_duplicates, spooling
from mlm.corpus.corpus_building import SPLITS, after_reading, build_corpus, take_over
from mlm.corpus.corpus_writing import write_file
from mlm.corpus.deduplication import deduplicate
from mlm.corpus.file_patterns import matched_files, used_settings
from mlm.corpus.formats import read_documents
from mlm.corpus.part_reading import read_part
from mlm.corpus.parts import files_of_sources, planned_parts, whole
from mlm.corpus.spooling import PartFiles, SpooledCorpus
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
    for module, name in (
        *((near_duplicates, name) for name in ("_COMPARED", "_PAIRS")),
        (near_clusters, "_CHUNK"),
    ):
        monkeypatch.setattr(module, name, 7)
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


def section(**more) -> dict:
    return resolve({"corpus": {"source": "files", "files": {"train": ["data/*"]}} | more})["corpus"]


def in_one_job(directory: Path, corpus: dict) -> None:
    files = matched_files({split: corpus["files"][split] for split in SPLITS})
    build_corpus(used_settings(corpus, 0), files, *outputs(directory, corpus["count"]))


def in_parts(directory: Path, corpus: dict, parts: int) -> int:
    """What the jobs of a corpus in parts do, one after the other; how many parts there were."""
    used = used_settings(corpus, 0)
    files = files_of_sources(corpus, print)
    pieces = planned_parts(corpus | {"parts": parts}, files, print)
    place = directory / "parts"
    read = [PartFiles.below(place / "read", number) for number in range(len(pieces))]
    for part, left in zip(pieces, read, strict=True):
        read_part(used, part, left)
    (place / "written").mkdir()
    records = [files.record for files in read]
    descriptions, _ = after_reading(records, used, corpus["count"], place / "written")
    for split, made in descriptions.items():
        made.write(place / f"{split}.json")
    take_over(place, *outputs(directory, corpus["count"]), threads=2)
    return len(pieces)


def content(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.glob("*") if file.is_file()}


@pytest.mark.parametrize(
    "settings",
    [
        {
            "held_out": {"validation": 0.2, "test": 0.2},
            "filters": {"decontamination": {"also": ["validation", "test"], "words": 9}},
        },
        {"count": {"train": 5, "test": 2}, "held_out": {"validation": 0.2, "test": 0.2}},
        {
            "files": {
                "train": ["data/a.txt", "data/b.jsonl"],
                "validation": ["data/c.txt.gz"],
                "test": ["data/d.parquet"],
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
    ("parts", "fewest"), [(1, 1), (7, 5), pytest.param(64, 20, marks=pytest.mark.slow)]
)
def test_any_number_of_parts_gives_the_bytes_of_one_job(sources, settings, parts, fewest):
    corpus = section(**settings)
    if corpus["group_per"]:
        # Two files and no more, or each split would be one group.
        corpus["files"]["validation"].append("data/e.csv")
        Path("data/f.txt").write_text("another\n\ntext\n")
        corpus["files"]["test"].append("data/f.txt")
    in_one_job(Path("one"), corpus)
    expected = content(Path("one"))
    assert len(expected) == 3 + sum(corpus["count"].values())
    taken = json.loads(expected["train.json"])["filters"]
    on = {"decontamination", "quality", "near_leaked"} & taken.keys()
    assert all(taken[name] > 3 for name in on)
    assert fewest <= in_parts(Path("parts"), corpus, parts) <= parts
    assert content(Path("parts")) == expected
    assert not list(Path("parts").rglob(".*"))


TEXT = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"bc d", "é".encode(), "\u3000".encode(), b" ", b"\t"]),
    max_size=30,
).map(b"".join)


@settings(deadline=None, max_examples=150)
@given(TEXT, st.lists(st.integers(0, 60), max_size=4), st.sampled_from(["line", "paragraph"]))
@example(b"\xef\xbb\xbf\na\n\nb", [1, 4, 5], "paragraph")
@example(b"a\nb\n\r\nc", [2, 4, 5, 6], "paragraph")
def test_ranges_of_a_text_give_each_document_once(text, cuts, per):
    reading = Corpus(files=Files(document_per=per))
    size = len(text)
    edges = [0, *sorted(min(cut, size) for cut in cuts), size]
    whole = list(read_documents(io.BytesIO(text), "x", "txt", reading))
    parts = [
        document
        for start, stop in pairwise(edges)
        for document in read_documents(io.BytesIO(text), "x", "txt", reading, start, stop)
    ]
    assert parts == whole


@pytest.mark.parametrize("start", [0, 100, 300])
def test_messages_of_a_later_part_name_the_line_and_byte_of_the_file(start):
    for bad, told in ((b'"\xff', "41, byte offset 591: byte 0xff"), (b"no", "41: no valid JSON")):
        lines = [b'{"text": "%d"}' % i for i in range(50)]
        lines[40] = bad
        text = b"\n".join(lines)
        with pytest.raises(MlmError, match=f"x, line {told}"):
            list(read_documents(io.BytesIO(text), "x", "jsonl", Corpus(), start, len(text)))


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


@pytest.mark.parametrize(
    "damaged", ["read-00000.digests", "read-00001-train.arrow", "removed.numbers"]
)
def test_what_a_part_left_is_checked_before_it_is_used(here, damaged):
    place = Path("results/corpus/parts/00002")
    for number in range(2):
        Path("a.txt").write_text("".join(f"text {number} {i % 40}\n" for i in range(50)))
        corpus = used_settings(section(files={"train": ["a.txt"]}), 0)
        files = PartFiles.below(place, number)
        read_part(corpus, {"files": whole({"train": ["a.txt"]}), "share": (0, 1)}, files)
        outputs = [files.record, files.digests, *map(files.spool, SPLITS)]
        record_job("corpus_read", {}, {}, map(str, outputs))
    file = place / damaged

    def damage() -> None:
        if file.exists():
            file.write_bytes(file.read_bytes()[:-1] + b"?")

    damage()
    removed = place / "removed.json"
    records = [PartFiles.below(place, number).record for number in range(2)]
    with pytest.raises(MlmError, match=rf"{damaged} is damaged.*rm {file}, then the same"):
        deduplicate(records, True, True, removed)
        outputs = map(str, [removed, removed.with_suffix(".numbers")])
        record_job("corpus_deduplicate", {}, {}, outputs)
        damage()
        write_file(SpooledCorpus([removed]), "train", 0, 1, {}, Path("train.json"))

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import content, in_parts
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import refusal

from mlm.config.configuration import Configuration
from mlm.config.overlays import resolve
from mlm.corpus import spooling
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.mixing_and_writing import chosen_documents


@pytest.fixture
def place(here, monkeypatch):
    monkeypatch.setattr(spooling, "BATCH_DOCUMENTS", 8)
    lines = [f"a line of letters {n}" for n in range(300)]
    Path("letters.txt").write_text("\n".join([*lines, "short", lines[7]]) + "\n")
    rows = [json.dumps({"body": f"by {n % 9}, piece {n}", "author": n % 9}) for n in range(250)]
    rows += [json.dumps({"body": line, "author": n % 9}) for n, line in enumerate(lines[:50])]
    Path("pieces.jsonl").write_text("\n".join(rows) + "\n")
    notes = pa.table({"text": [f"note {n}" for n in range(100)]})
    pq.write_table(notes, "notes.parquet", row_group_size=7)
    return here


def mix(more: dict | None = None, **weights) -> Configuration:
    sources = {
        "letters": {"files": {"train": ["letters.txt"]}, "filters": {"min_characters": 8}},
        "pieces": {
            "files": {"train": ["pieces.jsonl"]},
            "text_column": "body",
            "group_by": "author",
        },
        "notes": {"files": {"train": ["notes.parquet"]}},
    }
    chosen = {n: sources[n] | {"source": "files", "weight": w} for n, w in weights.items()}
    for name, keys in (more or {}).items():
        chosen[name] = chosen.get(name, chosen["pieces"]) | keys
    corpus = {"source": "mix", "mix": chosen, "held_out": {"validation": 0.2, "test": 0.2}}
    return resolve({"corpus": corpus | {"count": 3}})


def texts(directory: Path, split: str) -> list[str]:
    files = CorpusSplit.read(directory / f"{split}.json").files
    return [t for f in files for t in pq.read_table(directory / f.name)["text"].to_pylist()]


def test_documents_are_taken_as_often_as_their_sources_weigh_whatever_the_parts(place):
    corpus = mix(letters=2.5, pieces=0.4, notes=1)
    assert in_parts(Path("one"), corpus, 1) == 3
    described = CorpusSplit.read("one/train.json")
    train = texts(Path("one"), "train")
    assert described.documents == len(train)
    by_name = {source.name: source for source in described.source.sources}
    assert list(by_name) == ["letters", "notes", "pieces"]
    counts = Counter(train)
    for name, begin, copies in (("letters", "a line", {2, 3}), ("notes", "note", {1})):
        own = {text: n for text, n in counts.items() if text.startswith(begin)}
        assert set(own.values()) == copies and by_name[name].filters["kept"] == len(own)
    kept = {name: source.filters["kept"] for name, source in by_name.items()}
    taken = {name: source.documents for name, source in by_name.items()}
    assert taken == {
        "letters": 2 * kept["letters"] + kept["letters"] // 2,
        "notes": kept["notes"],
        "pieces": kept["pieces"] * 2 // 5,
    }
    assert "short" not in counts
    assert by_name["pieces"].filters["duplicate"] > 10
    for source in by_name.values():
        assert source.filters["read"] == sum(source.filters.values()) - source.filters["read"]
    for split in ("validation", "test"):
        held_out = texts(Path("one"), split)
        assert len(set(held_out)) == len(held_out) and not set(held_out) & set(train)
    first = train[: kept["letters"] + taken["notes"] + taken["pieces"]]
    assert len(set(first)) == len(first)
    assert "a mix of letters, 2.5 times (1 text file" in str(described.source)
    assert in_parts(Path("parts"), corpus, 4) == 3
    assert content(Path("parts")) == content(Path("one"))


def test_groups_of_different_sources_are_apart_and_a_text_without_one_is_a_group(place):
    corpus = mix({"more": {"text_column": "also"}}, pieces=1, notes=2)
    lines = Path("pieces.jsonl").read_text().splitlines()
    rows = (json.loads(line) for line in lines)
    also = (json.dumps(row | {"also": f"other {row['body']}"}) + "\n" for row in rows)
    Path("pieces.jsonl").write_text("".join(also))
    in_parts(Path("out"), corpus, 2)
    groups = {}
    for split in ("train", "validation", "test"):
        for file in CorpusSplit.read(f"out/{split}.json").files:
            for row in pq.read_table(Path("out") / file.name).to_pylist():
                assert groups.setdefault(row["group"], split) == split
                assert row["text"].startswith("note") == row["group"].startswith("notes: ")
    assert {"pieces: 3", "more: 3"} <= set(groups)
    assert sum(group.startswith("notes: ") for group in groups) == 100


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 5000), st.fractions(0, 1, max_denominator=1000), st.integers(0, 2**64 - 1))
def test_a_choice_is_an_exact_share_also_of_each_block(total, share, key):
    chosen = chosen_documents(total, share, key)
    for end in (*range(1024, total, 1024), total):
        assert chosen[:end].sum() == end * share.numerator // share.denominator


def test_a_source_that_gives_nothing_is_refused_in_words(place):
    few = {"notes": {"filters": {"min_characters": 100}}}
    corpus = mix(few, letters=1, pieces=0.001, notes=1)
    message = refusal(in_parts, Path("out"), corpus, 2)
    assert "corpus.mix.notes: none of its 0 documents" in message
    assert "corpus.mix.pieces: none of its " in message
    assert "letters" not in message

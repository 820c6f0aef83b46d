import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpus_files import build, described, files, in_parts
from tests.conftest import refusal

from mlm.config.overlays import resolve
from mlm.corpus import decontamination
from mlm.corpus.decontamination import Decontamination

pytestmark = pytest.mark.usefixtures("here")
WORDS = [f"w{i}" for i in range(20)]


def contaminated(text: str, texts: list[str], words: int = 13) -> bool:
    known = Decontamination()
    known.add("asked", texts, words)
    return bool(list(known.contaminated(["before", text])))


def test_as_many_words_in_a_row_are_too_many_whatever_case_and_punctuation():
    """Of a short text all of its words, if there are eight or more."""
    texts = [" ".join(WORDS), "one two three", "four " * 8, "国家经济发展问题", "国家经济发展"]
    inner = WORDS[3:16]
    assert contaminated("before, " + "; ".join(inner).upper() + " (after)", texts)
    assert not contaminated("before " + " ".join(inner[1:]) + " after", texts)
    assert not contaminated(" ".join([*inner[:6], "other", *inner[6:]]), texts)
    assert contaminated(" ".join(inner[1:]), texts, words=12)
    assert contaminated("so: " + ", ".join(["four"] * 8) + ".", texts)
    assert not contaminated("one two three", texts) and not contaminated("four " * 7, texts)
    # A character of a script without spaces is a word.
    assert contaminated("关于国家经济发展问题的讨论", texts)
    assert not contaminated("关于国家经济发展的讨论", texts)


def test_train_alone_loses_documents_which_are_counted_by_file():
    first, second = " ".join(WORDS[:13]), " ".join(WORDS[7:20])
    Path("asked.jsonl").write_text(json.dumps({"question": first.title()}))
    Path("more.jsonl").write_text(json.dumps({"question": f"{second}!"}))
    Path("train.txt").write_text(f"A {first} b\nfree text\nC {second}\n")
    against = ["asked.jsonl", "more.jsonl"]
    own = {"decontamination": {"against": against, "text_column": "question"}}
    section = files("train.txt", filters=own)
    Path("test.txt").write_text(f"{second} of test\n")
    documents = build(section)
    assert documents["train"] == ["free text"] and documents["test"] == [f"{second} of test"]
    assert described("train")["filters"]["decontamination"] == 2
    rules = described("train")["rules"]
    assert rules["decontamination.asked.jsonl"]["samples"] == [first]
    assert rules["decontamination.more.jsonl"]["documents"] == 1
    assert described("test")["rules"]["decontamination.more.jsonl"]["documents"] == 0


def test_more_n_grams_than_a_job_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr(decontamination, "MOST", 7)
    assert "the texts up to asked have more than 7" in refusal(contaminated, "", [" ".join(WORDS)])
    monkeypatch.setattr(decontamination, "MOST", 8)
    assert not contaminated("text", [" ".join(WORDS)])


def test_words_of_held_out_documents_are_not_left_in_train_also_where_they_are_carved():
    lines = [f"text {n} " + " ".join(WORDS[n % 5 : n % 5 + 13]) for n in range(40)]
    lines += [f"nothing like it {n}" for n in range(40)]
    Path("train.txt").write_text("\n".join(lines) + "\n")
    section = {"source": "files", "files": {"train": ["train.txt"]}}
    section["held_out"] = {"validation": 0.2, "test": 0.2}
    untouched = build(section)
    documents = build(section | {"filters": {"decontamination": {"also": ["test", "validation"]}}})
    assert documents["test"] == untouched["test"]
    assert documents["validation"] == untouched["validation"]
    left, told = untouched["train"], described("train")
    # A document that has words of both counts for test.
    for split in ("test", "validation"):
        known = "\n".join(untouched[split])
        shared = [t for t in left if " ".join(t.split()[2:]) in known and "text" in t]
        assert told["rules"][f"decontamination.{split}"]["documents"] == len(shared) > 0
        left = [t for t in left if t not in shared]
    assert documents["train"] == left
    counts = told["filters"]
    assert counts["decontamination"] == len(untouched["train"]) - len(left)
    assert counts["read"] == sum(v for k, v in counts.items() if k != "read")
    assert len(told["rules"]["decontamination.test"]["samples"][0].split()) == 13


def test_a_source_of_a_mix_is_searched_for_its_own_texts_and_for_held_out_ones():
    texts = {name: " ".join(f"{name}{n}" for n in range(13)) for name in ("a", "b", "held")}
    Path("bench.txt").write_text(texts["a"] + "\n")
    for name in ("one", "two"):
        lines = [*(f"In {name}: {text}" for text in texts.values()), f"{name} alone"]
        Path(f"{name}.txt").write_text("\n".join(lines) + "\n")
    for name in ("validation", "test"):
        Path(f"{name}.txt").write_text(f"Of {name}: {texts['held']}\n")
    held_out = {"validation": ["validation.txt"], "test": ["test.txt"]}
    sources = {
        "one": {"files": {"train": ["one.txt"]} | held_out},
        "two": {"files": {"train": ["two.txt"]}, "filters": {"decontamination": {"words": 5}}},
    }
    sources["one"]["filters"] = {"decontamination": {"against": ["bench.txt"]}}
    corpus = {"source": "mix", "mix": {n: {"source": "files"} | s for n, s in sources.items()}}
    corpus["filters"] = {"decontamination": {"also": ["test"]}}
    in_parts(Path("out"), resolve({"corpus": corpus}), 1)
    train = pq.read_table("out/train.parquet")["text"].to_pylist()
    assert train == [
        *(f"In one: {texts['b']}", "one alone"),
        *(f"In two: {texts[name]}" for name in ("a", "b")),
        "two alone",
    ]

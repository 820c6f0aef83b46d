"""Documents of train that share words in a row with texts that the model is judged by."""

import json
from pathlib import Path

import pytest
from corpus_files import build, described, files

from mlm.corpus import decontamination
from mlm.corpus.decontamination import Decontamination
from mlm.foundations.errors import MlmError

WORDS = [f"w{i}" for i in range(20)]


def judged(text: str, *, words: int = 13) -> str | None:
    settings = {"against": ["asked.txt"], "words": words, "text_column": "text"}
    return Decontamination(settings).judged(text, [])[1]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_as_many_words_in_a_row_are_too_many_whatever_case_and_punctuation():
    Path("asked.txt").write_text(" ".join(WORDS) + "\n")
    inner = WORDS[3:16]
    assert judged("before, " + "; ".join(inner).upper() + " (after)")
    assert judged("before " + " ".join(inner[1:]) + " after") is None
    assert judged(" ".join([*inner[:6], "other", *inner[6:]])) is None
    assert judged(" ".join(inner[1:]), words=12)


def test_a_short_text_is_looked_for_as_a_whole_from_eight_words_on():
    Path("asked.txt").write_text(" ".join(WORDS[:8]) + "\n" + " ".join(WORDS[10:17]) + "\n")
    assert judged("so: " + ", ".join(WORDS[:8]) + ".")
    assert judged(" ".join(WORDS[:7])) is None
    assert judged("so: " + ", ".join(WORDS[10:17]) + ".") is None


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
    Path("asked.txt").write_text(" ".join(WORDS) + "\n")
    monkeypatch.setattr(decontamination, "MOST", 7)
    with pytest.raises(MlmError, match=r"the texts up to asked\.txt have more than 7 different"):
        judged("text")
    monkeypatch.setattr(decontamination, "MOST", 8)
    assert judged("text") is None

"""The share of held-out words in runs of 13 words that train has too."""

import re
from pathlib import Path

import pytest
from corpus_files import build, described, from_files
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mlm.corpus import word_overlap
from mlm.corpus.artefacts import WordOverlap

WORDS = ["the", "The", "Ärger", "ärger", "7", "Straße", "국민", "𐐀x", "a", "it's", "İ", "x_y", "—"]
DOCUMENTS = st.lists(
    st.lists(st.sampled_from(WORDS[:4]), min_size=1, max_size=40).map(" ".join),
    min_size=1,
    max_size=6,
)


def words_of(text: str) -> list[str]:
    lower = "".join(low if len(low := c.lower()) == 1 else c for c in text)
    return re.findall(r"[^\W_]+", lower)


def expected(held_out: list[str], train: list[str]) -> WordOverlap:
    """The overlap by sets of tuples."""

    def runs(text: str) -> list[tuple[str, ...]]:
        return list(zip(*(words_of(text)[start:] for start in range(13)), strict=False))

    known = {run for text in train for run in runs(text)}
    words = shared = documents = 0
    for text in held_out:
        covered = [False] * len(words_of(text))
        for start, run in enumerate(runs(text)):
            if run in known:
                covered[start : start + 13] = [True] * 13
        words, shared = words + len(covered), shared + sum(covered)
        documents += any(covered)
    return WordOverlap(words, shared, documents)


def measured(directory: Path, texts: dict[str, list[str]]) -> dict[str, WordOverlap]:
    kept = build(from_files(directory, texts, remove_leakage=False), 3, directory)
    assert {split: sorted(found) for split, found in kept.items()} == {
        split: sorted(set(found)) for split, found in texts.items()
    }
    assert "overlap_with_train" not in described("train", directory)
    return {
        split: WordOverlap(**described(split, directory)["overlap_with_train"])
        for split in ("validation", "test")
    }


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    train=DOCUMENTS, validation=DOCUMENTS, test=DOCUMENTS, mixed=st.lists(st.sampled_from(WORDS))
)
def test_the_overlap_is_that_of_sets_of_13_words(tmp_path_factory, train, validation, test, mixed):
    own = " ".join(mixed) + " " + test[0]
    texts = {
        "train": list(dict.fromkeys([*train, own.upper(), f"({own})"])),
        "validation": list(dict.fromkeys(validation)),
        "test": list(dict.fromkeys([*test, own])),
    }
    found = measured(tmp_path_factory.mktemp("corpus"), texts)
    assert found == {s: expected(texts[s], texts["train"]) for s in ("validation", "test")}


def test_long_documents_are_compared_whole(tmp_path):
    text = " ".join(f"word{i}" for i in range(60_000))
    texts = {"train": [f"first {text} last"], "validation": [f"x {text} y"], "test": ["other"]}
    assert measured(tmp_path, texts)["validation"] == WordOverlap(60_002, 60_000, 1)


def test_of_a_large_split_documents_at_equal_distances_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(word_overlap, "MOST_WORDS", 300)
    documents = [" ".join(f"d{i}w{j}" for j in range(20)) for i in range(60)]
    texts = {"train": documents[:30], "validation": documents, "test": documents[:3]}
    found = measured(tmp_path, texts)
    assert found["test"] == WordOverlap(60, 60, 3)
    assert found["validation"].words == 300
    assert found["validation"].shared == pytest.approx(150, abs=20)

"""The share of held-out words in runs of words that train has too."""

import re
import unicodedata
from pathlib import Path

import pytest
from corpus_files import build, described, from_files
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mlm.corpus import decontamination
from mlm.corpus.artefacts import WordOverlap

WORDS = [
    *("the", "The", "Ärger", "ärger", "7", "Straße", "국민", "𐐀x"),
    *("a", "it's", "x_y", "—", "漢字"),
]
DOCUMENTS = st.lists(
    st.lists(st.sampled_from(WORDS[:4]), min_size=1, max_size=40).map(" ".join),
    min_size=1,
    max_size=6,
)


def expected(held_out: list[str], train: list[str]) -> WordOverlap:
    """The overlap by sets of tuples."""

    def words_of(text: str) -> list[str]:
        return re.findall("[漢字]|[^\\W_漢字]+", unicodedata.normalize("NFKC", text).casefold())

    def runs(text: str) -> list[tuple[str, ...]]:
        return list(zip(*(words_of(text)[start:] for start in range(8)), strict=False))

    known = {run for text in train for run in runs(text)}
    counts = dict.fromkeys(("words", "shared", "documents"), 0)
    counts |= {"unmeasured_words": 0, "unmeasured_documents": 0}
    for text in held_out:
        covered = [False] * len(words_of(text))
        for start, run in enumerate(runs(text)):
            if run in known:
                covered[start : start + 8] = [True] * 8
        short = len(covered) < 8
        counts["unmeasured_words" if short else "words"] += len(covered)
        counts["unmeasured_documents"] += short
        counts["shared"] += sum(covered)
        counts["documents"] += any(covered)
    return WordOverlap(8, **counts)


def measured(directory: Path, texts: dict[str, list[str]]) -> dict[str, WordOverlap]:
    build(from_files(directory, texts, remove_leakage=False), 3, directory)
    assert "overlap_with_train" not in described("train", directory)
    return {
        split: WordOverlap(**described(split, directory)["overlap_with_train"])
        for split in ("validation", "test")
    }


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    train=DOCUMENTS, validation=DOCUMENTS, test=DOCUMENTS, mixed=st.lists(st.sampled_from(WORDS))
)
def test_the_overlap_is_that_of_sets_of_8_words(tmp_path_factory, train, validation, test, mixed):
    own = " ".join(mixed) + " " + test[0]
    texts = {
        "train": list(dict.fromkeys([*train, own.upper(), f"({own})"])),
        "validation": list(dict.fromkeys(validation)),
        "test": list(dict.fromkeys([*test, own])),
    }
    found = measured(tmp_path_factory.mktemp("corpus"), texts)
    assert found == {s: expected(texts[s], texts["train"]) for s in ("validation", "test")}


def test_text_without_spaces_is_compared_and_what_is_too_short_is_not_called_unseen(tmp_path):
    lines = [f"{chr(0x4E00 + n)}次会议讨论了经济发展的重要问题" for n in range(20)]
    short = [f"only {n} words in it" for n in range(20)]
    texts = {"train": lines, "validation": [f"{line}。了" for line in lines], "test": short}
    found = measured(tmp_path, texts)
    assert found["validation"].words == 17 * 20 and found["validation"].share == 16 / 17
    assert found["test"] == WordOverlap(8, 0, 0, 0, 100, 20) and found["test"].share is None


def test_of_a_large_split_documents_at_equal_distances_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(decontamination, "MOST_WORDS", 300)
    documents = [" ".join(f"d{i}w{j}" for j in range(20)) for i in range(60)]
    texts = {"train": documents[:30], "validation": documents, "test": documents[:3]}
    found = measured(tmp_path, texts)
    assert found["test"] == WordOverlap(8, 60, 60, 3, 0, 0)
    assert found["validation"].words == 300
    assert found["validation"].shared == pytest.approx(150, abs=20)

import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpus_files import build, described, from_files
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import refusal

from mlm.config.fields import SPLITS
from mlm.corpus import corpus_reading, spooling
from mlm.corpus.artefacts import (
    EmbeddedSource,
    Encoding,
    ReadPart,
    ReadSplit,
    document_range,
    file_name,
)
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.deduplication import remove_duplicates
from mlm.corpus.embedded_corpus import (
    address_of,
    presidents,
    speeches,
    speeches_by_split,
    split_addresses,
)
from mlm.corpus.spooling import DUPLICATE, KEPT, LEAKED, PRECEDENCE, SpooledCorpus, SpoolWriter
from mlm.foundations.digests import file_sha256


@pytest.fixture(scope="module")
def embedded(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("embedded")
    build({}, 0, directory)
    return directory


def test_whole_addresses_of_many_presidents_are_held_out_by_the_seed_and_none_is_lost():
    names, shares, seen = sorted(speeches()), {"validation": 0.05, "test": 0.05}, set()
    president_of = presidents()
    for seed in (0, 1, 12345):
        groups = speeches_by_split(seed, shares)
        assert sorted(name for group in groups.values() for name in group) == names
        addresses = {split: set(map(address_of, texts)) for split, texts in groups.items()}
        for split in ("validation", "test"):
            assert len(addresses[split]) == 20 and not addresses[split] & addresses["train"]
            assert len({president_of[name] for name in addresses[split]}) == 20
            seen.add(frozenset(addresses[split]))
        backwards = dict(reversed(president_of.items()))
        assert split_addresses(backwards, seed, shares) == addresses
    assert len(seen) == 6
    assert len(split_addresses(president_of, 0, {"test": 0.2})["test"]) == 46


def test_the_embedded_corpus_adds_up(embedded, tmp_path):
    total, every = 0, []
    for split in SPLITS:
        found = described(split, embedded)
        texts = pq.read_table(embedded / f"{split}.parquet")["text"].to_pylist()
        assert found["documents"] == len(texts) == found["filters"]["kept"]
        assert found["characters"] == sum(map(len, texts))
        assert found["bytes"] == sum(len(text.encode()) for text in texts)
        assert found["words"] == sum(len(text.split()) for text in texts)
        counts = dict(found["filters"])
        assert counts.pop("read") == sum(counts.values())
        if split != "train":
            # What decontamination leaves: runs of 8 to 12 words.
            assert 0.01 < found["overlap_with_train"]["shared"] / found["words"] < 0.03
        total += found["filters"]["read"]
        every += texts
    assert total == 25488 and len(every) == len(set(every))
    build({}, 0, tmp_path)
    for file in sorted(embedded.iterdir()):
        assert file.read_bytes() == (tmp_path / file.name).read_bytes()


def expected_verdicts(texts: dict[str, list[bytes]], duplicates: bool, leaks: bool):
    result, above = {}, set()
    for split in PRECEDENCE:
        seen, verdicts = set(), []
        for text in texts[split]:
            duplicate = duplicates and text in seen
            leaked = leaks and text in above
            seen.add(text)
            verdicts.append(DUPLICATE if duplicate else LEAKED if leaked else KEPT)
        result[split] = verdicts
        above |= seen
    return result


documents = st.lists(st.sampled_from([b"%d" % i for i in range(12)]), max_size=40)


@settings(deadline=None, max_examples=60)
@given(
    st.fixed_dictionaries(dict.fromkeys(PRECEDENCE, documents)),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
)
def test_duplicates_and_leaks_are_those_that_sets_would_find(
    tmp_path_factory, texts, duplicates, leaks, run
):
    part = tmp_path_factory.mktemp("digests") / "0.json"
    source = EmbeddedSource("embedded", "", "", (), ())
    read = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooling, "BATCH_DOCUMENTS", run)
        patch.setattr(spooling, "_TOGETHER", 2 * run)
        for split in SPLITS:
            writer = SpoolWriter(part.with_suffix(f".{split}"), signs=False)
            for text in texts[split]:
                writer.add(text, None)
            writer.close()
            read[split] = ReadSplit({}, Encoding(), tuple(writer.rows), source, {})
        ReadPart(read, "document", {}).write(part)
        corpus = SpooledCorpus([part])
        remove_duplicates(corpus, duplicates, leaks)
    for split, verdicts in expected_verdicts(texts, duplicates, leaks).items():
        (spool,) = corpus.spools_of(split)
        assert corpus.verdicts[spool.numbers].tolist() == verdicts


def test_each_filter_counts_what_it_takes(tmp_path):
    texts = {
        "train": ["", " \t", "ab", "abc", "abcdef", "abc", "held out", "abcdefghij" * 2, "test"],
        "validation": ["held out", "test", "val"],
        "test": ["test", "test"],
    }
    found = build(from_files(tmp_path, texts, min_characters=3, max_characters=19), 3, tmp_path)
    assert found == {
        "train": ["abc", "abcdef"],
        "validation": ["held out", "val"],
        "test": ["test"],
    }
    assert described("train", tmp_path)["filters"] == {
        **{"read": 9, "empty": 2, "too_short": 1, "too_long": 1, "duplicate": 1, "leaked": 2},
        "kept": 2,
    }
    assert described("validation", tmp_path)["filters"]["leaked"] == 1
    assert described("test", tmp_path)["filters"]["duplicate"] == 1
    texts = {"train": ["a", "a", "b"], "validation": ["b"], "test": ["b", "b"]}
    plan = from_files(tmp_path, texts, deduplicate=False, remove_leakage=False)
    assert build(plan, 3, tmp_path) == texts


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_equal_after_normalisation_is_a_duplicate(tmp_path, form):
    texts = {"train": ["e\u0301ﬁ", "\u00e9ﬁ", "한"], "validation": ["v"], "test": ["t"]}
    found = build(from_files(tmp_path, texts, normalisation=form), 3, tmp_path)
    assert found["train"] == [unicodedata.normalize(form, t) for t in ("\u00e9ﬁ", "한")]


def test_missing_splits_are_carved_without_a_loss_and_given_ones_are_left(tmp_path):
    lines = [f"document {i}" for i in range(400)]
    found = build(from_files(tmp_path, {"train": lines}), 3, tmp_path)
    assert sorted(text for texts in found.values() for text in texts) == sorted(lines)
    for split in ("validation", "test"):
        assert 50 < len(found[split]) < 150
        assert described(split, tmp_path)["source"]["carved_from"] == "train"
    fewer = build(from_files(tmp_path, {"train": lines[::2]}), 3, tmp_path)
    for split in SPLITS:
        assert set(fewer[split]) <= set(found[split])
    found = build(from_files(tmp_path, {"train": lines, "test": ["x", "y"]}), 3, tmp_path)
    assert found["test"] == ["x", "y"] and found["validation"]


def test_an_error_or_a_kill_on_the_way_leaves_the_old_corpus_and_nothing_else(tmp_path):
    texts = {"train": ["a", "b"], "validation": ["v"], "test": ["t"]}
    out = tmp_path / "out"
    left = out / ".corpus-in-progress" / "digests"
    left.mkdir(parents=True)
    (left / "00").write_bytes(b"x" * 25)
    assert build(from_files(tmp_path, texts), 3, out) == texts
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    emptied = from_files(tmp_path, texts | {"train": ["c"], "test": [" "]})
    assert "test is left without a document" in refusal(build, emptied, 3, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    plan = from_files(tmp_path, texts) | {"count": 3}
    assert "corpus.count" in refusal(build, plan, 3, tmp_path / "more")
    assert not list((tmp_path / "more").iterdir())


def test_files_of_equal_shares_are_the_split_in_its_order(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_reading, "_TOGETHER", 4)
    texts = {"train": [f"text {i:02d}" for i in range(50)], "validation": ["v"], "test": ["t"]}
    plan = from_files(tmp_path, texts | {"train": [*texts["train"], "text 07"]})
    # Of thirteen fours, the last one of two: the first, and those a quarter, half and so on behind.
    share_of_100_bytes = [*range(4), *range(12, 16), *range(24, 28), *range(36, 40)]
    for count in (1, 3, 50):
        out = tmp_path / str(count)
        names = [file_name("train", i, count) for i in range(count)]
        build(plan | {"count": count}, 3, out)
        documents = SplitDocuments.described(out / "train.json")
        assert [t for some in documents.texts(7) for t in some] == texts["train"]
        assert documents.column("group").to_pylist() == list(range(50))
        files = described("train", out)["files"]
        assert [file["name"] for file in files] == names
        assert [file["documents"] for file in files] == [
            len(document_range(50, i, count)) for i in range(count)
        ]
        assert [file["sha256"] for file in files] == [file_sha256(out / name) for name in names]
        (batch,) = documents.batches(["text"], 50, range(7, 8))
        assert batch.column("text").to_pylist() == ["text 07"]
        share = documents.evenly(100)
        assert documents.evenly(350).is_all and not share.is_all
        found = [t for some in documents.texts(3, share) for t in some]
        assert found == [f"text {i:02d}" for i in share_of_100_bytes]

"""An index of the corpus answers as the texts themselves do."""

import random
import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from asked_project import CONFIG, SPLITS, copied, lines, new_project, write_project

from mlm.asking import index_building, terms
from mlm.asking.artefacts import IndexRecord
from mlm.asking.asking import Question, ask
from mlm.asking.documents import Documents
from mlm.asking.in_words import in_words
from mlm.asking.index_building import IndexSources, build_index
from mlm.asking.indexed_documents import IndexedDocuments, documents_of
from mlm.asking.text_index import TextIndex, decoded, encoded
from mlm.config.resolution import resolve
from mlm.corpus.filters import Filters
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import MlmError

TEXTS = list(lines(400))
#: Scripts without spaces, letters whose lower case is another length, words within words.
ODD = [
    "我们认为这些真理是不言而喻的,人人生而平等。The people 人民 said so 2024年.",
    "私たちはこれらの真理を自明のことと考える。人民の、人民による、人民のための政治。",
    "เราถือว่าความจริงเหล่านี้ประจักษ์ชัดในตัวเอง ประชาชน",
    "İSTANBUL'da Straße und STRASSE, ΟΔΟΣ ὀδός; womanly men, a_b c_d, naïve café ①②",
    "우리는 이 진리를 자명한 것으로 여긴다 שלום עולם हम इन सत्यों को मानते हैं",
    "— … ! 人 b",
]
DOCUMENTS = {
    # Long documents beside short ones: each has several passages.
    "one": [*TEXTS[:60], *ODD, " ".join(TEXTS[60:120]), "人民" * 40 + "共和国"],
    "two": TEXTS[120:200],
    "validation": [*TEXTS[200:230], ODD[0][5:]],
    "test": [*TEXTS[230:260], ODD[3] + " again"],
}
COMMAND = "snakemake --cores 2 index"


def sources(split: str) -> IndexSources:
    manifest, tokenizer = f"results/manifests/{split}.json", "results/tokenizer/tokenizer.json"
    return IndexSources(documents(split), Path(manifest), Path(tokenizer), Path())


def documents(split: str) -> SplitDocuments:
    return SplitDocuments.described(f"results/corpus/{split}.json")


def write_index(directory: str = "results/index") -> None:
    for split in SPLITS:
        path = Path(directory, f"{split}.sqlite")
        build_index(split, sources(split), path).write(path.with_suffix(".json"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An indexed project; parts, blocks and passages are so small that there are many."""
    with (
        new_project(tmp_path_factory, "indexed") as place,
        pytest.MonkeyPatch.context() as patch,
    ):
        small(patch)
        write_project(DOCUMENTS)
        write_index()
    return place


def small(patch) -> None:
    for name, size in (("_PART_POSTINGS", 900), ("_BLOCK_POSTINGS", 300), ("_READ", 16)):
        patch.setattr(index_building, name, size)
    for module in (terms, sys.modules["mlm.asking.indexed_documents"]):
        patch.setattr(module, "PASSAGE_RUNS", 8)


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    small(monkeypatch)
    return copied(made, tmp_path, monkeypatch)


def both() -> tuple[Documents, IndexedDocuments]:
    splits = {split: documents(split) for split in SPLITS}
    manifests = {split: Path(f"results/manifests/{split}.json") for split in SPLITS}
    where = Path("results/index")
    found, indexes, notes = documents_of(splits, manifests, where, FileMemory(None), COMMAND)
    assert isinstance(found, IndexedDocuments) and set(indexes) == set(SPLITS) and not notes
    return Documents(splits), found


def questions(count: int):
    """Pieces of the documents, as they are and spoiled, and words put together at random."""
    drawn, texts = random.Random(0), [t for of_file in DOCUMENTS.values() for t in of_file]
    words = sorted({word for text in texts for word in text.split()})
    for number in range(count):
        text = drawn.choice(ODD if number % 3 == 0 else texts)
        start = drawn.randrange(len(text))
        piece = text[start : start + drawn.randint(1, 80)]
        mixed = " ".join(drawn.choice(words) for _ in range(drawn.randint(1, 30)))
        yield drawn.choice(
            [piece, piece.upper(), f"{piece} zebra", mixed, piece.replace(" ", "\n")]
        )


@pytest.mark.parametrize("count", [24, pytest.param(400, marks=pytest.mark.slow)])
def test_an_answer_is_the_same_with_the_index_and_without(project, count):
    plain, indexed = both()
    exact = nearest = 0
    for question in questions(count):
        sentence = Filters("NFC", 1, None, True, True).prepared(question).text.strip()
        if not sentence:
            continue
        assert indexed.exact(sentence) == plain.exact(sentence), sentence
        assert indexed.nearest(sentence, 5) == plain.nearest(sentence, 5), sentence
        exact += bool(plain.exact(sentence))
        nearest += len(plain.nearest(sentence, 5))
    assert exact > count / 10 and nearest > count
    for document in (0, 59, 66):
        assert indexed.group("train", document) == plain.group("train", document)


def test_a_document_is_found_whole_through_the_index(project):
    plain, indexed = both()
    some = [t for of_file in DOCUMENTS.values() for t in of_file[::9]]
    for text in [*some, *ODD, *DOCUMENTS["one"][-2:]]:
        found = indexed.exact(text)
        assert found and found == plain.exact(text)


def test_the_whole_answer_is_the_same_with_the_index_and_without(project):
    asked = [TEXTS[3], "人民", TEXTS[240], " ".join(TEXTS[62:64]), f"{TEXTS[7]} zebra", "qqq"]
    settings = resolve(CONFIG)
    with_index = [ask(Question(sentence, settings, "base")) for sentence in asked]
    shutil.rmtree("results/index")
    assert [ask(Question(sentence, settings, "base")) for sentence in asked] == with_index
    assert sum(one.exact for one in with_index) == 4


def test_the_same_corpus_gives_the_same_bytes(project):
    write_index("again")
    for split in SPLITS:
        for ending in ("sqlite", "json"):
            made = Path(f"results/index/{split}.{ending}").read_bytes()
            assert Path(f"again/{split}.{ending}").read_bytes() == made
    assert sorted(p.name for p in Path("again").iterdir()) == sorted(
        f"{split}.{ending}" for split in SPLITS for ending in ("sqlite", "json")
    )


def test_its_parts_and_blocks_change_no_answer(project, monkeypatch):
    """One part, one block: what is merged is what was read."""
    many = {split: whole(f"results/index/{split}.sqlite") for split in SPLITS}
    assert max(len(blocks) for _, blocks in many.values()) > 5
    for name in ("_PART_POSTINGS", "_BLOCK_POSTINGS", "_BLOCK_TERMS"):
        monkeypatch.setattr(index_building, name, 10**9)
    write_index("one")
    for split in SPLITS:
        found, blocks = whole(f"one/{split}.sqlite")
        assert len(blocks) == 1 and found == many[split][0]


def whole(path: str) -> tuple[dict[bytes, list[int]], list]:
    """The passages of each term of an index, and its blocks; read by the format's definition."""
    file, found = sqlite3.connect(path), {}
    blocks = file.execute("SELECT number, first, terms, counts FROM block ORDER BY number")
    blocks = blocks.fetchall()
    for number, first, text, counts in blocks:
        (data,) = file.execute("SELECT passages FROM postings WHERE block=?", (number,)).fetchone()
        steps, at, names = decoded(data), 0, text.split(b"\n")[1:-1]
        assert names[0] == first and names == sorted(names)
        for name, count in zip(names, decoded(counts).tolist(), strict=True):
            found[name] = (np.cumsum(steps[at : at + count] + 1) - 1).tolist()
            at += count
    return found, blocks


def test_numbers_are_read_as_they_were_written():
    drawn = random.Random(1)
    numbers = [0, 127, 128, 2**14 - 1, 2**14, 2**21, 2**28, 2**35 - 1]
    numbers += [drawn.randrange(2 ** drawn.randint(1, 35)) for _ in range(500)]
    data, sizes = encoded(np.array(numbers))
    assert decoded(data).tolist() == numbers and sizes.sum() == len(data)
    assert decoded(encoded(np.zeros(0))[0]).tolist() == []


def test_an_index_of_another_corpus_is_not_used_and_that_is_said(project):
    record = IndexRecord.read("results/index/train.json")
    replace(record, corpus_sha256="0" * 64).write("results/index/train.json")
    question = Question(TEXTS[3], resolve(CONFIG), "base", command="snakemake --cores 2 -d x")
    answer = ask(question)
    assert answer.exact
    assert (
        "results/index/train.json: is the index of another "
        "results/corpus/train-00000-of-00002.parquet"
        " and 1 more, and was not used. To have it made again: snakemake --cores 2 index -d x"
    ) in in_words(answer)
    # The same text, packed otherwise.
    replace(record, manifest_sha256="0" * 64).write("results/index/train.json")
    assert "another results/manifests/train.json, and was not used" in in_words(ask(question))


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "other", "record"])
def test_a_damaged_index_is_named_with_the_command_that_makes_it_again(project, damage):
    path = Path("results/index/train.sqlite")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "gone":
        path.unlink()
    elif damage == "record":
        path = path.with_suffix(".json")
        path.write_text("{")
    else:
        path.write_text("no index")
    with pytest.raises(MlmError) as told:
        ask(Question(TEXTS[3], resolve(CONFIG), "base"))
    assert str(told.value).startswith(f"{path}: is missing" if damage == "gone" else f"{path} is d")
    files = "results/index/train.json"
    files += "" if damage == "record" else " results/index/train.sqlite"
    assert f"rm {files}, then " in str(told.value)
    assert str(told.value).endswith("snakemake --cores 2 index")


def test_a_file_that_is_no_index_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "train.sqlite"
    path.write_text("no index" * 1000)
    with pytest.raises(MlmError, match=r"is damaged: file is not a database\. Make it again"):
        TextIndex(path, "Make it again").holding(["a"])
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE block (number)")
    with pytest.raises(MlmError, match="is damaged: no such table: documents"):
        TextIndex(path, "Make it again").containing(["a"])


def test_an_index_is_not_made_of_shards_of_another_text(project):
    with pytest.raises(MlmError, match=r"test\.parquet: is not the text that the train shards"):
        build_index(
            "train",
            replace(sources("train"), corpus=documents("test")),
            "new/train.sqlite",
        )
    assert not Path("new").exists()

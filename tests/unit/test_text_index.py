import random
from dataclasses import replace
from pathlib import Path

import pytest
from asked_project import CONFIG, SPLITS, copied, lines, new_project, write_project

from mlm.asking.answer import ask
from mlm.asking.documents import Documents, matches
from mlm.asking.text_index import IndexRecord, build_index, open_indexes
from mlm.config.resolution import resolve
from mlm.corpus.filters import prepared
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
    "— … ! 人 b __ 人_民 Ⅷ",
]
DOCUMENTS = {
    "one": [*TEXTS[:60], *ODD, " ".join(TEXTS[60:120]), "人民" * 40 + "共和国"],
    "two": TEXTS[120:200],
    "validation": [*TEXTS[200:230], ODD[0][5:]],
    "test": [*TEXTS[230:260], ODD[3] + " again"],
}


def documents(split: str) -> SplitDocuments:
    return SplitDocuments.described(f"results/corpus/{split}.json")


def write_index(split: str, directory: str = "results/index") -> None:
    path = Path(directory, f"{split}.sqlite")
    record = build_index(split, Path(f"results/corpus/{split}.json"), path)
    record.write(path.with_suffix(".json"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with new_project(tmp_path_factory, "indexed") as place:
        write_project(DOCUMENTS)
        for split in SPLITS:
            write_index(split)
    return place


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    return copied(made, tmp_path, monkeypatch)


def both() -> tuple[Documents, Documents]:
    splits = {split: documents(split) for split in SPLITS}
    found, notes = open_indexes(splits, Path("results"), FileMemory(None))
    assert set(found) == set(SPLITS) and not notes
    return Documents(splits), Documents(splits, found)


def questions(count: int):
    """Pieces of the documents, as they are and spoiled, and words put together at random."""
    drawn, texts = random.Random(0), [t for of_file in DOCUMENTS.values() for t in of_file]
    words = sorted({word for text in texts for word in text.split()})
    for number in range(count):
        text = drawn.choice(ODD if number % 3 == 0 else texts)
        start = drawn.randrange(len(text))
        piece = text[start : start + drawn.randint(1, drawn.choice((2, 80)))]
        mixed = " ".join(drawn.choice(words) for _ in range(drawn.randint(1, 30)))
        yield drawn.choice(
            [piece, piece.upper(), f"{piece} zebra", mixed, piece.replace(" ", "\n")]
        )


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_an_answer_is_the_same_with_the_index_and_without(project, count):
    plain, indexed = both()
    exact = nearest = 0
    for question in questions(count):
        sentence = prepared(question, "NFC").text.strip()
        if not sentence:
            continue
        # Against all documents, one by one.
        everywhere = [
            found
            for split in SPLITS
            for number, text in enumerate(documents(split).column("text").to_pylist())
            for found in matches(sentence, split, number, text)
        ]
        assert indexed.exact(sentence) == plain.exact(sentence) == everywhere, sentence
        assert indexed.nearest(sentence, 5) == plain.nearest(sentence, 5), sentence
        exact += bool(everywhere)
        nearest += len(plain.nearest(sentence, 5))
    assert exact > count / 10 and nearest > count


def test_the_same_corpus_gives_the_same_bytes(project):
    for split in SPLITS:
        write_index(split, "again")
    made, again = (
        {path.name: path.read_bytes() for path in Path(directory).iterdir()}
        for directory in ("results/index", "again")
    )
    assert again == made and len(made) == 2 * len(SPLITS)


AGAIN = "rm -r results/index, then the same snakemake command index"


def test_an_index_of_other_data_is_not_used_and_that_is_said(project):
    whole = ask(TEXTS[3], resolve(CONFIG), "base")
    record = IndexRecord.read("results/index/train.json")
    replace(record, corpus_sha256="0" * 64).write("results/index/train.json")
    answer = ask(TEXTS[3], resolve(CONFIG), "base")
    assert answer.exact and answer.passages == whole.passages and whole.notes == ()
    (note,) = answer.notes
    assert note.startswith("results/index/train.json") and note.endswith(AGAIN)


@pytest.mark.parametrize("damage", ["flipped", "record"])
def test_a_damaged_index_is_named_with_the_command_that_makes_it_again(project, damage):
    path = Path("results/index/train.sqlite")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    if damage == "record":
        path.with_suffix(".json").write_text("{")
    with pytest.raises(MlmError, match=f"train.sqlite: .*{AGAIN}$"):
        ask(TEXTS[3], resolve(CONFIG), "base")

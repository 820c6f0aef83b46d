import random

import pytest
from asked_project import SPLITS, lines, new_project, write_project

from mlm.asking.passages_in_training import matches, occurrences
from mlm.corpus.bytes_to_text import prepared
from mlm.corpus.corpus_reading import SplitDocuments

TEXTS = list(lines(140))
#: Scripts without spaces, letters whose lower case is another length, words within words.
ODD = [
    "我们认为这些真理是不言而喻的,人人生而平等。The people 人民 said so 2024年.",
    "เราถือว่าความจริงเหล่านี้ประจักษ์ชัดในตัวเอง ประชาชน",
    "İSTANBUL'da Straße und STRASSE, ΟΔΟΣ ὀδός; womanly men, a_b c_d, naïve café ①②",
    "— … ! 人 b __ 人_民 Ⅷ",
]
DOCUMENTS = {
    "one": [*TEXTS[:40], *ODD, " ".join(TEXTS[40:80]), "人民" * 40 + "共和国"],
    "two": TEXTS[80:100],
    "validation": [*TEXTS[100:120], ODD[0][5:]],
    "test": [*TEXTS[120:], ODD[2] + " again"],
}


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    with new_project(tmp_path_factory, "documents"):
        write_project(DOCUMENTS)
        yield {s: SplitDocuments.described(f"results/corpus/{s}.json") for s in SPLITS}


def test_a_piece_of_a_document_is_found_wherever_a_look_at_all_of_them_finds_it(splits):
    drawn, texts = random.Random(0), [t for of_file in DOCUMENTS.values() for t in of_file]
    held = {s: documents.column("text").to_pylist() for s, documents in splits.items()}
    found = 0
    for number in range(60):
        text = drawn.choice(ODD if number % 3 == 0 else texts)
        start = drawn.randrange(len(text))
        piece = prepared(text[start : start + drawn.randint(1, 80)], "NFC")[0].strip()
        if not piece:
            continue
        everywhere = [
            match
            for split in SPLITS
            for i, whole in enumerate(held[split])
            for match in matches(piece, split, i, whole)
        ]
        assert occurrences(piece, splits) == everywhere, piece
        found += bool(everywhere)
    assert found > 20


@pytest.mark.parametrize(
    "word, longer, inside", [("كتاب", "كتابه", 0), ("हिन्दी", "हिन्दीभाषा", 0), ("人", "人民", 1)]
)
def test_a_match_begins_and_ends_at_a_word_in_every_script_with_spaces(word, longer, inside):
    assert len(matches(word, "train", 0, longer)) == inside
    assert len(matches(word, "train", 0, f"{longer} {word}")) == inside + 1

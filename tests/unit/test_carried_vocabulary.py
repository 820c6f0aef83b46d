import json
from functools import cache

import numpy as np
import pytest
from test_pieces import SPECIAL, trained
from tokenizers import normalizers

from mlm.model.carried_vocabulary import CarriedVocabulary, Reading, Vocabulary

ROLES = dict(zip(("cls", "pad", "sep", "unk", "mask"), SPECIAL, strict=True))


@cache
def vocabulary(kind: str, normalizer=None) -> Vocabulary:
    tokenizer = trained(kind)
    if normalizer:
        tokenizer.normalizer = normalizer
    return Vocabulary(json.loads(tokenizer.to_str()), ROLES)


@pytest.mark.parametrize("new_kind", ["wordpiece", "bytes", "metaspace"])
@pytest.mark.parametrize("old_kind", ["wordpiece", "bytes", "metaspace"])
def test_the_parts_of_a_piece_say_what_it_says(old_kind, new_kind):
    old, new = vocabulary(old_kind), vocabulary(new_kind)
    carried = CarriedVocabulary.between(old, new)
    assert carried.same == (old_kind == new_kind)
    assert [ids[0][0] for ids in carried.parts[:5]] == [0, 1, 2, 3, 4]
    of_old, copied = old.readings(), 0
    for reading, ids in zip(new.readings()[5:], carried.parts[5:], strict=True):
        if ids:
            parts = [of_old[i] for i, _ in ids]
            content = b"".join(part.content for part in parts)
            # WordPiece has no white space.
            assert b"".join(content.split()) == b"".join(reading.content.split())
            assert sum(weight for _, weight in ids) == pytest.approx(1)
            # Punctuation is a word of its own in a WordPiece vocabulary.
            if any(map(str.isalnum, reading.content.decode(errors="ignore")[:1])):
                assert parts[0].starts == reading.starts
            copied += len(ids) == 1
    assert copied > 100
    assert sum(not ids for ids in carried.parts) < 30


def test_a_lowercase_vocabulary_gives_its_pieces_to_capitals_and_characters_weigh():
    old = vocabulary("wordpiece", normalizer=normalizers.BertNormalizer(lowercase=True))
    assert old.cut(Reading(True, b"The")) == [(old.ids["the"], 3)]
    assert old.cut(Reading(True, "æøå".encode())) == []
    several = old.cut(Reading(True, b"Theofthe"))
    assert sum(length for _, length in several) == 8 and len(several) > 1


def test_rows_are_copied_or_means_of_what_the_text_falls_into():
    old = np.array([[1, 0], [0, 2], [3, 4]], np.float32)
    fresh = np.full((4, 2), 9, np.float32)
    carried = CarriedVocabulary((((1, 1.0),), ((0, 0.5), (1, 0.5)), (), ((2, 1.0),)), False)
    expected = [[0, 2], [0.5, 1], [9, 9], [3, 4]]
    np.testing.assert_allclose(carried.table(old, fresh), expected)
    assert carried.ways() == {"copied": 2, "mean of pieces": 1, "left": 1}
    assert carried.bias(np.float32([-1, -3, -5])).tolist() == [-3, -3, -3, -5]

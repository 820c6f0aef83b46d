from types import SimpleNamespace

import numpy as np
import pytest

from mlm.evaluation.minimal_pairs import encoded_pairs, score_pairs
from mlm.foundations.errors import MlmError


class Letters(SimpleNamespace):
    """One id a letter: a is 5; 0, 1, 2 and 4 are cls, pad, sep and mask."""

    cls_token_id, pad_token_id, sep_token_id, mask_token_id = 0, 1, 2, 4

    def __call__(self, text):
        return {"input_ids": [0, *(ord(c) - ord("a") + 5 for c in text), 2]}


def test_each_token_is_masked_once_in_a_row_of_its_own():
    found = encoded_pairs([("ab", "c")], Letters(), 5)
    assert found.rows.tolist() == [[0, 4, 6, 2, 1], [0, 5, 4, 2, 1], [0, 4, 2, 1, 1]]
    assert found.attention.tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]
    assert found.places.tolist() == [1, 2, 1]
    assert found.labels.tolist() == [5, 6, 7]


def test_the_sentence_with_the_higher_sum_wins():
    encoded = encoded_pairs([("ab", "c"), ("d", "ee")], Letters(), 6)
    value = {5: -1.0, 6: -2.0, 7: -4.0, 8: -9.0, 9: -1.0}
    found = score_pairs(encoded, lambda *a: np.array([value[label] for label in a[3].tolist()]))
    assert [p.scores for p in found.pairs] == [(-3.0, -4.0), (-9.0, -2.0)]
    assert ([p.correct for p in found.pairs], found.accuracy) == ([True, False], 0.5)


def test_sentences_of_the_same_tokens_are_refused():
    class Blind(Letters):
        def __call__(self, text):
            return super().__call__(text.strip())

    with pytest.raises(MlmError, match="'ab' and ' ab' are the same tokens"):
        encoded_pairs([("ab", "c"), ("ab", " ab")], Blind(), 6)


def test_without_pairs_nothing_is_asked():
    assert encoded_pairs([], Letters(), 6) is None


@pytest.mark.parametrize("text", ["", "abcdefg"])
def test_a_sentence_that_is_empty_or_too_long_is_named(text):
    with pytest.raises(MlmError, match=f"evaluation.minimal_pairs: '{text}' has"):
        encoded_pairs([("a", text)], Letters(), 6)

from types import SimpleNamespace

import numpy as np
import pytest

from mlm.evaluation.minimal_pairs import score_pairs
from mlm.foundations.errors import MlmError


class Letters(SimpleNamespace):
    """One id a letter: a is 5; 0, 1, 2 and 4 are cls, pad, sep and mask."""

    cls_token_id, pad_token_id, sep_token_id, mask_token_id = 0, 1, 2, 4

    def __call__(self, text):
        return {"input_ids": [0, *(ord(c) - ord("a") + 5 for c in text.strip()), 2]}


def test_each_token_is_masked_once_and_the_sentence_with_the_higher_sum_wins():
    asked = {}

    def log_probabilities(question):
        asked.update({name: array.tolist() for name, array in question.items()})
        value = {5: -1.0, 6: -2.0, 7: -4.0, 8: -9.0, 9: -1.0}
        return np.array([value[label] for (label,) in asked["labels"]])

    found = score_pairs([("ab", "c"), ("d", "ee")], Letters(), 5, log_probabilities)
    expected = {
        "input_ids": [[0, 4, 6, 2, 1], [0, 5, 4, 2, 1], [0, 4, 2, 1, 1]],
        "attention_mask": [[1, 1, 1, 1, 0], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]],
        "positions": [[1], [2], [1]],
        "labels": [[5], [6], [7]],
    }
    assert {name: rows[:3] for name, rows in asked.items()} == expected
    assert [p.scores for p in found.pairs] == [(-3.0, -4.0), (-9.0, -2.0)]
    assert ([p.correct for p in found.pairs], found.accuracy) == ([True, False], 0.5)
    assert score_pairs([], Letters(), 5, log_probabilities) is None


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("ab", " ab"), "'ab' and ' ab' are the same tokens"),
        (("a", ""), "evaluation.minimal_pairs: '' has"),
        (("a", "abcdefg"), "evaluation.minimal_pairs: 'abcdefg' has 9 tokens"),
    ],
)
def test_a_pair_that_cannot_be_compared_is_named(pair, said):
    with pytest.raises(MlmError, match=said):
        score_pairs([pair], Letters(), 6, None)

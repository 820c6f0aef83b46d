from types import SimpleNamespace

import pytest

from mlm.evaluation.minimal_pairs import score_pairs
from mlm.foundations.errors import MlmError


class Letters(SimpleNamespace):
    """One id a letter: a is 5; 0, 1, 2 and 4 are cls, pad, sep and mask."""

    cls_token_id, pad_token_id, sep_token_id, mask_token_id = 0, 1, 2, 4

    def __call__(self, text):
        return {"input_ids": [0, *(ord(c) - ord("a") + 5 for c in text.strip()), 2]}


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

"""Minimal pairs: does the model prefer the acceptable sentence?

By the pseudo-log-likelihood of Salazar, Liang, Nguyen and Kirchhoff, "Masked Language Model
Scoring" (2020): each token is masked in turn, and the log-probabilities of the true tokens
are added up. Pairs as in BLiMP (Warstadt et al., 2020).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlm.evaluation.artefacts import MinimalPairs, ScoredPair
from mlm.foundations.errors import MlmError

#: (input_ids [n, sequence], attention_mask, positions [n], labels [n]) → log-probabilities [n].
LogProbabilities = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs of sentences as rows, each with one token masked.

    `rows` and `attention` are [n, sequence]; `places` and `labels` [n] are the masked
    token's place and id. `lengths` [2 × pairs] are the sentences' numbers of rows.
    """

    pairs: Sequence[Sequence[str]]
    rows: np.ndarray
    attention: np.ndarray
    places: np.ndarray
    labels: np.ndarray
    lengths: list[int]


def encoded_pairs(pairs: Sequence[Sequence[str]], tokenizer, length: int) -> EncodedPairs | None:
    """The pairs as rows of `length` tokens; None where there are no pairs.

    `tokenizer` is transformers' fast tokenizer. Raises MlmError for a sentence without a
    token, or with more than fit, and for two that are the same tokens.
    """
    if not pairs:
        return None
    parts = [_masked_one_by_one(text, tokenizer, length) for pair in pairs for text in pair]
    for i, (first, second) in enumerate(pairs):
        # Labels in the order of their places: the tokens themselves.
        if np.array_equal(parts[2 * i][3], parts[2 * i + 1][3]):
            raise MlmError(
                f"evaluation.minimal_pairs: {first!r} and {second!r} are the same tokens, so that "
                "nothing is compared; change one, or leave the pair out"
            )
    arrays = [np.concatenate(p) for p in zip(*parts, strict=True)]
    return EncodedPairs(pairs, *arrays, lengths=[len(part[0]) for part in parts])


def score_pairs(encoded: EncodedPairs, log_probabilities: LogProbabilities) -> MinimalPairs:
    """The pairs with their scores, and the share that is right."""
    found = log_probabilities(encoded.rows, encoded.attention, encoded.places, encoded.labels)
    sums = [float(np.sum(s)) for s in np.split(found, np.cumsum(encoded.lengths)[:-1])]
    scores = zip(sums[::2], sums[1::2], strict=True)
    pairs = [
        ScoredPair(*pair, (first, second), correct=first > second)
        for pair, (first, second) in zip(encoded.pairs, scores, strict=True)
    ]
    return MinimalPairs(sum(pair.correct for pair in pairs) / len(pairs), pairs)


def _masked_one_by_one(text: str, tokenizer, length: int) -> tuple[np.ndarray, ...]:
    """For each token of `text`, the sentence without it: rows [n, length], their attention
    masks, the token's place and its id [n]."""
    ids = np.array(tokenizer(text)["input_ids"], np.int32)
    frame = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id]
    places = np.flatnonzero(~np.isin(ids, frame)).astype(np.int32)
    if not len(places) or len(ids) > length:
        raise MlmError(
            f"evaluation.minimal_pairs: {text!r} has {len(ids)} tokens, special ones included; "
            f"at least one of its own and at most {length} are expected. Shorten it."
        )
    rows = np.full((len(places), length), tokenizer.pad_token_id, np.int32)
    rows[:, : len(ids)] = ids
    rows[np.arange(len(places)), places] = tokenizer.mask_token_id
    attention = np.zeros_like(rows)
    attention[:, : len(ids)] = 1
    return rows, attention, places, ids[places]

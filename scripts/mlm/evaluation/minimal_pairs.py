"""Minimal pairs: does the model prefer the acceptable sentence?

By the pseudo-log-likelihood of Salazar, Liang, Nguyen and Kirchhoff, "Masked Language Model
Scoring" (2020): each token is masked in turn. Pairs as in BLiMP (Warstadt et al., 2020).
"""

from collections.abc import Callable, Sequence

import numpy as np

from mlm.evaluation.artefacts import MinimalPairs, ScoredPair
from mlm.foundations.errors import MlmError


def score_pairs(
    pairs: Sequence[Sequence[str]],
    tokenizer,
    length: int,
    log_probabilities: Callable[[dict[str, np.ndarray]], np.ndarray],
) -> MinimalPairs | None:
    """The pairs with their scores, and the share that is right; None without pairs. MlmError for a
    sentence without a token, or with more than `length`, and for two of the same tokens."""
    if not pairs:
        return None
    parts = [_masked_one_by_one(text, tokenizer, length) for pair in pairs for text in pair]
    for (first, second), one, other in zip(pairs, parts[::2], parts[1::2], strict=True):
        # Labels in the order of their places: the tokens themselves.
        if np.array_equal(one["labels"], other["labels"]):
            raise MlmError(
                f"evaluation.minimal_pairs: {first!r} and {second!r} are the same tokens, so that "
                "nothing is compared; change one, or leave the pair out"
            )
    found = log_probabilities({k: np.concatenate([part[k] for part in parts]) for k in parts[0]})
    ends = np.cumsum([len(part["labels"]) for part in parts])
    sums = [float(np.sum(sentence)) for sentence in np.split(found, ends[:-1])]
    scored = [
        ScoredPair(*pair, scores, correct=scores[0] > scores[1])
        for pair, scores in zip(pairs, zip(sums[::2], sums[1::2], strict=True), strict=True)
    ]
    return MinimalPairs(sum(pair.correct for pair in scored) / len(scored), scored)


def _masked_one_by_one(text: str, tokenizer, length: int) -> dict[str, np.ndarray]:
    """For each token of `text`, a row of the sentence without it."""
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
    return {
        "input_ids": rows,
        "attention_mask": np.tile(np.int32(np.arange(length) < len(ids)), (len(rows), 1)),
        "positions": places[:, np.newaxis],
        "labels": ids[places][:, np.newaxis],
    }

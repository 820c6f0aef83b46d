"""Which tokens are predicted, and what the model sees in their place: a function of (seed, epoch,
index of the sample) alone, after Devlin et al., "BERT" (2019), section 3.1, and Liu et al.,
"RoBERTa" (2019). Written once, for arrays of NumPy and of JAX, in integers, so that a host and an
accelerator choose the same tokens."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.pretraining import Masking
from mlm.foundations.atomic import read_json
from mlm.samples.random_bits import below, threefry
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pieces import word_starts

#: An array of NumPy or of JAX.
Array = Any
#: Validation is masked alike in all runs whose last phase has rows of one length.
VALIDATION_SEED = 0
VALIDATION_MASKING = Masking(mlm_probability=0.15)
#: The epoch that evaluation masks are drawn in: no training run reaches it.
FIXED_EPOCH = 2**32 - 1
#: Shares are in parts of 2^24, as random numbers are: the upper 24 of their 32 bits.
_SHARE_BITS = 24
#: Slots beyond the share in whole-word masking, for words that reach beyond the window. In English
#: text with 2,000 (8,000) subwords and samples of 64 tokens, 5 (2) in 10,000 of the tokens chosen
#: with the probability 0.15 find none.
_WHOLE_WORD_ROOM = 8


@dataclass(frozen=True)
class MaskingPlan:
    """All that masking needs besides the sample; `word_starts` [vocabulary_size], for whole words
    only, says whether a word starts with an id."""

    mlm_probability: float
    mask_token: float
    random_token: float
    mask_id: int
    special_ids: tuple[int, ...]
    vocabulary_size: int
    sequence_length: int
    whole_word: bool = False
    word_starts: np.ndarray | None = None
    fixed_slots: int | None = None

    @property
    def slots(self) -> int:
        """Prediction slots in a sequence, enough for whole words of usual lengths."""
        if self.fixed_slots is not None:
            return min(self.fixed_slots, self.sequence_length)
        needed = math.ceil(self.mlm_probability * self.sequence_length - 1e-9)
        if self.whole_word:
            needed += _WHOLE_WORD_ROOM
        return max(1, min(needed, self.sequence_length))

    @cached_property
    def is_special(self) -> np.ndarray:
        """Whether an id is never chosen, bool [vocabulary_size]."""
        special = np.zeros(self.vocabulary_size, bool)
        special[list(self.special_ids)] = True
        return special

    @cached_property
    def ordinary_ids(self) -> np.ndarray:
        """Those that random tokens are drawn from, int32, ascending."""
        return np.flatnonzero(~self.is_special).astype(np.int32)


def masking_plan(
    masking: Masking, encoder: Encoder, tokenizer_json: str | Path, length: int
) -> MaskingPlan:
    """The plan that section `pretraining.masking` asks for, with the tokenizer's ids."""
    return MaskingPlan(
        mlm_probability=masking.mlm_probability,
        mask_token=masking.mask_token,
        random_token=masking.random_token,
        mask_id=encoder.special_ids.mask,
        special_ids=tuple(sorted(encoder.special_ids)),
        vocabulary_size=encoder.vocabulary_size,
        sequence_length=length,
        whole_word=masking.whole_word,
        word_starts=word_starts(read_json(tokenizer_json)) if masking.whole_word else None,
        fixed_slots=masking.slots,
    )


def mask_batch(
    input_ids: Array,
    attention_mask: Array,
    sample_index: Array,
    plan: MaskingPlan,
    seed: Array,
    epoch: Array = FIXED_EPOCH,
) -> dict[str, Array]:
    """Choose tokens and replace them. Arrays are all of NumPy or all of JAX. Returns

    - input_ids, attention_mask [batch, sequence] int32, with the replacements
    - positions [batch, slots] int32, of the predictions
    - labels [batch, slots] int32, the tokens before any replacement
    - weights [batch, slots] float32, 1 for a slot in use, else 0
    - overflow [batch] int32, chosen tokens without a slot, which stay
    """
    xp = input_ids.__array_namespace__()
    input_ids, attention_mask = input_ids.astype(xp.int32), attention_mask.astype(xp.int32)
    eligible = (attention_mask == 1) & ~xp.asarray(plan.is_special)[input_ids]
    bits = _random_words(xp, sample_index, plan.sequence_length, seed, epoch)
    score, rounding, kind, token = bits
    choose = _whole_words if plan.whole_word else _single_tokens
    order, in_use, overflow = choose(xp, score, rounding, input_ids, eligible, plan)

    # From the order of the ranks back to that of the places.
    chosen = xp.take_along_axis(in_use, xp.argsort(order, axis=1, stable=True), axis=1)
    masked = xp.where(chosen, _replacements(xp, input_ids, kind, token, plan), input_ids)
    positions = order[:, : plan.slots].astype(xp.int32)
    return {
        "input_ids": masked,
        "attention_mask": attention_mask,
        "positions": positions,
        "labels": xp.take_along_axis(input_ids, positions, axis=1),
        "weights": in_use[:, : plan.slots].astype(xp.float32),
        "overflow": overflow.astype(xp.int32),
    }


def _random_words(
    xp: Any, sample_index: Array, length: int, seed: Array, epoch: Array
) -> list[Array]:
    """Four words of 32 bits for each token, [batch, sequence] each."""

    def column(numbers: Array) -> Array:
        return xp.reshape(xp.asarray(numbers, dtype=xp.uint32), (-1, 1))

    key, index = (column(seed), column(epoch)), column(sample_index)
    place = xp.arange(length, dtype=xp.uint32)[None]
    return [*threefry(key, (index, 2 * place)), *threefry(key, (index, 2 * place + 1))]


def _parts(share: float) -> int:
    """`share` in parts of 2^24."""
    return round(share * 2**_SHARE_BITS)


def _uniform(bits: Array, of: int = _SHARE_BITS) -> Array:
    """The upper bits of 32, a random number in parts of 2^of."""
    return bits >> (32 - of)


def _replacements(xp: Any, input_ids: Array, kind: Array, token: Array, plan: MaskingPlan) -> Array:
    """What the model sees at each place if it is chosen, [batch, sequence] int32."""
    kind, ordinary = _uniform(kind), plan.ordinary_ids
    random_ids = xp.asarray(ordinary)[below(token, len(ordinary))]
    shown = xp.where(kind < _parts(plan.mask_token + plan.random_token), random_ids, input_ids)
    return xp.where(kind < _parts(plan.mask_token), xp.int32(plan.mask_id), shown)


def _single_tokens(
    xp: Any, score: Array, rounding: Array, _ids: Array, eligible: Array, plan: MaskingPlan
) -> tuple[Array, Array, Array]:
    """Places by rank and which ranks are chosen, [batch, sequence], and the overflow [batch]: those
    with the lowest scores, mlm_probability of them, rounded up or down at random."""
    share, half = _parts(plan.mlm_probability), _SHARE_BITS // 2
    count = xp.sum(eligible, axis=1, dtype=xp.uint32)
    # n × share + random, in two halves that 32 bits hold.
    low = count * (share % 2**half) + _uniform(rounding[:, 0])
    wanted = (count * (share >> half) + (low >> half)) >> half
    score = xp.where(eligible, _uniform(score), xp.uint32(2**_SHARE_BITS))
    order = xp.argsort(score, axis=1, stable=True)
    in_use = xp.arange(plan.sequence_length)[None] < xp.minimum(wanted, plan.slots)[:, None]
    return order, in_use, wanted - xp.minimum(wanted, plan.slots)


def _whole_words(
    xp: Any, score: Array, rounding: Array, input_ids: Array, eligible: Array, plan: MaskingPlan
) -> tuple[Array, Array, Array]:
    """As `_single_tokens`, of whole words, by systematic sampling: words form a circle of n
    tokens, in the order of their scores. One at the places c to c + s is chosen if c + u × s is
    in the window [v × n, v × n + p × n), with u, v uniform in [0, 1): each with the probability
    p."""
    length, slots = plan.sequence_length, plan.slots
    # Distances in parts of a token, as small as 31 bits allow.
    parts = 30 - length.bit_length()
    point, start = (_uniform(rounding[:, i : i + 1], parts).astype(xp.int32) for i in (0, 1))
    starts = xp.asarray(plan.word_starts)[input_ids]
    word = _running_maximum(xp, xp.where(starts, xp.arange(length, dtype=xp.int32)[None], 0))
    last_of_all = xp.int32(2**31 - 1)
    score = xp.take_along_axis(_uniform(score).astype(xp.int32), word, axis=1)
    order, first, last = _runs_of_words(xp, xp.where(eligible, score, last_of_all), word, eligible)

    tokens = xp.sum(eligible, axis=1, keepdims=True, dtype=xp.int32)
    distance = (first << parts) + point * (last - first + 1) - start * tokens
    distance = xp.where(distance < 0, distance + (tokens << parts), distance)
    distance = xp.take_along_axis(distance, xp.argsort(order, axis=1, stable=True), axis=1)
    window = tokens * round(plan.mlm_probability * 2**parts)
    order, _, last = _runs_of_words(xp, xp.where(eligible, distance, last_of_all), word, eligible)
    chosen = xp.take_along_axis((distance < window) & eligible, order, axis=1)
    overflow = xp.sum(chosen & (last >= slots), axis=1, dtype=xp.int32)
    return order, chosen & (last < slots), overflow


def _runs_of_words(
    xp: Any, score: Array, word: Array, eligible: Array
) -> tuple[Array, Array, Array]:
    """Places by ascending score (one a word; not eligible ones last), and for each rank its word's
    first and last rank: [batch, sequence] each."""
    length = score.shape[1]
    order = xp.argsort(score, axis=1, stable=True)
    words = xp.take_along_axis(xp.where(eligible, word, -1), order, axis=1)
    ranks = xp.arange(length, dtype=xp.int32)[None]
    change = words[:, 1:] != words[:, :-1]
    edge = xp.ones_like(change[:, :1])
    begins, ends = xp.concat([edge, change], axis=1), xp.concat([change, edge], axis=1)
    first = _running_maximum(xp, xp.where(begins, ranks, 0))
    from_the_end = xp.flip(xp.where(ends, length - 1 - ranks, 0), axis=1)
    return order, first, length - 1 - xp.flip(_running_maximum(xp, from_the_end), axis=1)


def _running_maximum(xp: Any, x: Array) -> Array:
    """Maximum of all entries up to each, along axis 1, of int32 [batch, sequence], not negative."""
    length = x.shape[1]
    step = 1
    while step < length:
        x = xp.maximum(x, xp.pad(x[:, :-step], ((0, 0), (step, 0))))
        step *= 2
    return x

"""Which tokens are predicted, and what the model sees in their place.

The choice and the 80/10/10 replacement follow Devlin et al., "BERT" (2019), section 3.1; new
masks in every epoch follow Liu et al., "RoBERTa" (2019). A sample's mask is a function of
(seed, epoch, index of the sample) alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from mlm.framework import tf
from mlm.pretraining.keyed_random import threefry, uniform

#: The epoch that evaluation masks are drawn in: no training run reaches it.
FIXED_EPOCH = 2**32 - 1

#: Room beyond the share for the last word chosen, in whole-word masking: words of more tokens are
#: next to none, and counted where they are.
_WHOLE_WORD_ROOM = 32


@dataclass(frozen=True)
class MaskingPlan:
    """All that masking needs besides the sample itself.

    `special_ids` are never chosen and never put in as random tokens. `word_starts` says of
    each id whether a word starts with it ([vocabulary_size], needed for whole words only).
    """

    share: float
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
        """Prediction slots in a sequence.

        A sequence of n eligible tokens has share × n of them chosen, rounded up or down at
        random, so that ceil(share × length) slots hold every choice. Whole words can end
        beyond that, which the extra room is for.
        """
        if self.fixed_slots is not None:
            return min(self.fixed_slots, self.sequence_length)
        needed = math.ceil(self.share * self.sequence_length - 1e-9)
        if self.whole_word:
            needed += _WHOLE_WORD_ROOM
        return max(1, min(needed, self.sequence_length))

    @property
    def ordinary_ids(self) -> np.ndarray:
        """Every id that is not special, ascending, int32."""
        ids = np.arange(self.vocabulary_size, dtype=np.int32)
        return ids[~np.isin(ids, self.special_ids)]


def mask_batch(
    input_ids: tf.Tensor,
    attention_mask: tf.Tensor,
    sample_index: tf.Tensor,
    plan: MaskingPlan,
    seed: int | tf.Tensor,
    epoch: int | tf.Tensor = FIXED_EPOCH,
) -> dict[str, tf.Tensor]:
    """Choose tokens, replace them, and say where and what they were.

    `input_ids` and `attention_mask` are [batch, sequence], `sample_index` is [batch] and
    below 2^32, `epoch` a number or [batch]. Returns
      input_ids       [batch, sequence] int32, with the replacements
      attention_mask  [batch, sequence] int32
      positions       [batch, slots] int32, where predictions are asked for
      labels          [batch, slots] int32, the tokens that stood there
      weights         [batch, slots] float32, 1 for a slot in use, else 0
      overflow        [batch] int32, chosen tokens that found no slot (left unmasked)
    """
    input_ids = tf.cast(input_ids, tf.int32)
    attention_mask = tf.cast(attention_mask, tf.int32)
    batch, length = tf.shape(input_ids)[0], plan.sequence_length
    eligible = _eligible(input_ids, attention_mask, plan)
    choice, rounding, kind, token = _random_words(sample_index, length, seed, epoch, batch)

    count = tf.cast(tf.reduce_sum(tf.cast(eligible, tf.int32), axis=1), tf.float32)
    wanted = tf.cast(tf.floor(count * plan.share + uniform(rounding[:, 0])), tf.int32)

    score = uniform(choice)
    if plan.whole_word:
        score, word_rank_base = _scores_of_words(score, input_ids, plan)
    # A stable order: top_k prefers the lower position among equals.
    score = tf.where(eligible, score, 2.0)
    order_length = length if plan.whole_word else plan.slots
    _, order = tf.math.top_k(-score, k=order_length)
    rank = tf.range(order_length, dtype=tf.int32)[tf.newaxis, :]
    if plan.whole_word:
        chosen = _ranks_of_whole_words(order, word_rank_base, eligible, wanted)
    else:
        chosen = rank < wanted[:, tf.newaxis]
    asked = tf.reduce_sum(tf.cast(chosen, tf.int32), axis=1) if plan.whole_word else wanted
    overflow = tf.maximum(0, asked - plan.slots)
    positions, in_use = order[:, : plan.slots], chosen[:, : plan.slots]

    labels = tf.gather(input_ids, positions, batch_dims=1)
    shown = _replacements(labels, positions, kind, token, plan)
    flat = tf.stack([tf.repeat(tf.range(batch), plan.slots), tf.reshape(positions, [-1])], axis=1)
    shown = tf.where(in_use, shown, labels)
    masked = tf.tensor_scatter_nd_update(input_ids, flat, tf.reshape(shown, [-1]))
    return {
        "input_ids": tf.ensure_shape(masked, [None, length]),
        "attention_mask": attention_mask,
        "positions": positions,
        "labels": labels,
        "weights": tf.cast(in_use, tf.float32),
        "overflow": overflow,
    }


def _eligible(input_ids, attention_mask, plan: MaskingPlan) -> tf.Tensor:
    special = np.zeros(plan.vocabulary_size, bool)
    special[list(plan.special_ids)] = True
    return (attention_mask == 1) & ~tf.gather(tf.constant(special), input_ids)


def _random_words(sample_index, length: int, seed, epoch, batch):
    """Four words of 32 bits for each token, [batch, sequence] each."""
    index = tf.cast(tf.reshape(sample_index, [-1, 1]), tf.uint32)
    epoch = tf.cast(tf.broadcast_to(tf.reshape(epoch, [-1, 1]), [batch, 1]), tf.uint32)
    key = (tf.cast(seed, tf.uint32), epoch)
    place = tf.range(length, dtype=tf.int32)[tf.newaxis, :]
    first = threefry(key, (index, 2 * place))
    second = threefry(key, (index, 2 * place + 1))
    return first[0], first[1], second[0], second[1]


def _replacements(labels, positions, kind, token, plan: MaskingPlan) -> tf.Tensor:
    """What stands at the chosen positions afterwards, [batch, slots]."""
    kind = uniform(tf.gather(kind, positions, batch_dims=1))
    bits = tf.gather(token, positions, batch_dims=1)
    ordinary = plan.ordinary_ids
    # 64-bit multiply-shift (Lemire 2019): no division, bias below n / 2^32.
    place = tf.bitwise.right_shift(
        tf.cast(bits, tf.int64) * len(ordinary), tf.constant(32, tf.int64)
    )
    random_ids = tf.gather(tf.constant(ordinary), place)
    as_random = kind < plan.mask_token + plan.random_token
    shown = tf.where(as_random, random_ids, labels)
    return tf.where(kind < plan.mask_token, plan.mask_id, shown)


def _scores_of_words(score, input_ids, plan: MaskingPlan):
    """Every token's score becomes that of its word's first token; and the word's number."""
    starts = tf.gather(tf.constant(plan.word_starts), input_ids)
    places = tf.range(plan.sequence_length, dtype=tf.int32)[tf.newaxis, :]
    first = _running_maximum(tf.where(starts, places, 0))
    return tf.gather(score, first, batch_dims=1), first


def _running_maximum(x: tf.Tensor) -> tf.Tensor:
    """Maximum of all entries up to each, along axis 1, of int32 [batch, sequence]."""
    length = x.shape[1]
    step = 1
    while step < length:
        shifted = tf.pad(x[:, :-step], [[0, 0], [step, 0]])
        x = tf.maximum(x, shifted)
        step *= 2
    return x


def _ranks_of_whole_words(order, word, eligible, wanted) -> tf.Tensor:
    """Whether the token at each rank belongs to a word whose first rank is below `wanted`."""
    ranks = tf.range(tf.shape(order)[1], dtype=tf.int32)[tf.newaxis, :]
    words = tf.gather(word, order, batch_dims=1)
    same = tf.concat([tf.zeros_like(words[:, :1], tf.bool), words[:, 1:] == words[:, :-1]], axis=1)
    first_rank = _running_maximum(tf.where(same, 0, ranks))
    return (first_rank < wanted[:, tf.newaxis]) & tf.gather(eligible, order, batch_dims=1)

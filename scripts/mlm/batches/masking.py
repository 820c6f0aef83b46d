"""Which tokens are predicted, and what the model sees in their place.

The choice and the 80/10/10 replacement follow Devlin et al., "BERT" (2019), section 3.1; new
masks in every epoch follow Liu et al., "RoBERTa" (2019). Whole words are drawn by systematic
sampling: laid end to end in random order, those are chosen whose point falls into a window of the
share's length. A sample's mask is a function of (seed, epoch, index of the sample) alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from mlm.batches.keyed_random import threefry, uniform
from mlm.foundations.framework import tf

#: The epoch that evaluation masks are drawn in: no training run reaches it.
FIXED_EPOCH = 2**32 - 1

#: Slots beyond the share in whole-word masking, for words that reach beyond the window. In English
#: text with 2,000 (8,000) subwords and samples of 64 tokens, 5 (2) in 10,000 of the tokens chosen
#: with the probability 0.15 find none.
_WHOLE_WORD_ROOM = 8


@dataclass(frozen=True)
class MaskingPlan:
    """All that masking needs besides the sample itself.

    `special_ids` are never chosen and never put in as random tokens. `word_starts` says of
    each id whether a word starts with it ([vocabulary_size], needed for whole words only).
    """

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
        """Prediction slots in a sequence.

        Of n eligible tokens in a sequence, mlm_probability × n are chosen, rounded up or down at
        random, so that ceil(mlm_probability × length) slots hold every choice. Whole words come to
        as many on average, and to fewer than the longest word more, which the extra room is for.
        """
        if self.fixed_slots is not None:
            return min(self.fixed_slots, self.sequence_length)
        needed = math.ceil(self.mlm_probability * self.sequence_length - 1e-9)
        if self.whole_word:
            needed += _WHOLE_WORD_ROOM
        return max(1, min(needed, self.sequence_length))


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
      overflow        [batch] int32, chosen tokens that found no slot (left unmasked; a word as
                      a whole)
    """
    input_ids = tf.cast(input_ids, tf.int32)
    attention_mask = tf.cast(attention_mask, tf.int32)
    batch, length = tf.shape(input_ids)[0], plan.sequence_length
    eligible = _eligible(input_ids, attention_mask, plan)
    choice, rounding, kind, token = _random_words(sample_index, length, seed, epoch, batch)

    count = tf.cast(tf.reduce_sum(tf.cast(eligible, tf.int32), axis=1), tf.float32)
    wanted = tf.cast(tf.floor(count * plan.mlm_probability + uniform(rounding[:, 0])), tf.int32)

    score = uniform(choice)
    if plan.whole_word:
        window = (count * plan.mlm_probability, uniform(rounding[:, 0]), uniform(rounding[:, 1]))
        positions, in_use, overflow = _whole_words(score, input_ids, eligible, window, plan)
    else:
        # A stable order: top_k prefers the lower position among equals.
        _, positions = tf.math.top_k(-tf.where(eligible, score, 2.0), k=plan.slots)
        in_use = tf.range(plan.slots)[tf.newaxis, :] < wanted[:, tf.newaxis]
        overflow = tf.maximum(0, wanted - plan.slots)

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
    ids = np.arange(plan.vocabulary_size, dtype=np.int32)
    ordinary = ids[~np.isin(ids, plan.special_ids)]
    # 64-bit multiply-shift (Lemire 2019): no division, bias below n / 2^32.
    place = tf.bitwise.right_shift(
        tf.cast(bits, tf.int64) * len(ordinary), tf.constant(32, tf.int64)
    )
    random_ids = tf.gather(tf.constant(ordinary), place)
    as_random = kind < plan.mask_token + plan.random_token
    shown = tf.where(as_random, random_ids, labels)
    return tf.where(kind < plan.mask_token, plan.mask_id, shown)


def _whole_words(score, input_ids, eligible, window, plan: MaskingPlan):
    """Positions [batch, slots], which of them are in use, and the overflow [batch].

    A sample's n eligible tokens are laid in a circle, word after word in the order of their first
    tokens' scores. A word that takes the places c to c + s is chosen where its point c + u × s lies
    in the window [v × n, v × n + p × n), with p = mlm_probability. u and v are uniform in [0, 1),
    one of each in a sample: every word, long or short, is chosen with the probability p, so that
    the tokens chosen come to p × n in expectation. Of the words at the window's two ends, one with
    a part e outside is chosen where u × s >= e, the other where (1 - u) × s >= e, so that together
    fewer tokens lie outside than the longer has. `window` is (p × n, u, v), [batch] each.
    """
    length, slots = plan.sequence_length, plan.slots
    width, point, start = (x[:, tf.newaxis] for x in window)
    starts = tf.gather(tf.constant(plan.word_starts), input_ids)
    places = tf.range(length, dtype=tf.int32)[tf.newaxis, :]
    word = _running_maximum(tf.where(starts, places, 0))
    score = tf.where(eligible, tf.gather(score, word, batch_dims=1), 2.0)
    order, first, last = _runs_of_words(score, word, eligible)

    tokens = tf.reduce_sum(tf.cast(eligible, tf.float32), axis=1, keepdims=True)
    size = tf.cast(last - first + 1, tf.float32)
    distance = tf.cast(first, tf.float32) + point * size - start * tokens
    distance = tf.where(distance < 0, distance + tokens, distance)
    # From the order of the ranks back to that of the places.
    places_of_ranks = tf.argsort(order, axis=1)
    distance = tf.gather(distance, places_of_ranks, batch_dims=1)
    order, _, last = _runs_of_words(tf.where(eligible, distance, tf.float32.max), word, eligible)
    chosen = tf.gather((distance < width) & eligible, order, batch_dims=1)
    kept = chosen & (last < slots)
    overflow = tf.reduce_sum(tf.cast(chosen & (last >= slots), tf.int32), axis=1)
    return order[:, :slots], kept[:, :slots], overflow


def _runs_of_words(score, word, eligible) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Places by ascending score, and for each rank its word's first and last rank.

    All are [batch, sequence]; the tokens of a word have one score, and those that are not
    eligible come last.
    """
    length = score.shape[1]
    # A stable order: top_k prefers the lower position among equals.
    _, order = tf.math.top_k(-score, k=length)
    words = tf.where(
        tf.gather(eligible, order, batch_dims=1), tf.gather(word, order, batch_dims=1), -1
    )
    ranks = tf.range(length, dtype=tf.int32)[tf.newaxis, :]
    change = words[:, 1:] != words[:, :-1]
    edge = tf.ones_like(words[:, :1], tf.bool)
    begins, ends = tf.concat([edge, change], axis=1), tf.concat([change, edge], axis=1)
    first = _running_maximum(tf.where(begins, ranks, 0))
    from_the_end = tf.reverse(tf.where(ends, length - 1 - ranks, 0), axis=[1])
    last = length - 1 - tf.reverse(_running_maximum(from_the_end), axis=[1])
    return order, first, last


def _running_maximum(x: tf.Tensor) -> tf.Tensor:
    """Maximum of all entries up to each, along axis 1, of int32 [batch, sequence]."""
    length = x.shape[1]
    step = 1
    while step < length:
        shifted = tf.pad(x[:, :-step], [[0, 0], [step, 0]])
        x = tf.maximum(x, shifted)
        step *= 2
    return x

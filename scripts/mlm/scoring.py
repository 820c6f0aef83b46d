"""A model's answers at the masked positions of samples, through TensorFlow.

Logits are computed at the masked positions only, with shapes that do not change from batch to
batch: the last batch is filled up, and the filling dropped.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from mlm.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.prediction import masked_logits
from mlm.predictions import Positions, Scores, joined, positions_of
from mlm.progress_line import Progress
from mlm.split_samples import Samples

#: Logits held at a time: 2^26 float32 values are 256 MB, and the softmax needs a few of them.
_LARGEST_LOGITS = 2**26


@dataclass(frozen=True)
class Scored:
    """The predicted positions and a model's answers there."""

    positions: Positions
    scores: Scores


def score(
    model: tf.keras.Model,
    samples: Samples,
    plan: MaskingPlan,
    seed: int,
    batch_size: int,
    label: str = "evaluation",
) -> Scored:
    """Mask each sample with (seed, its index in the split) and score the model there.

    Every masked position of every sample counts once, in the order of the samples and of
    the places in them. `batch_size` is lowered where the logits would not fit in memory; it
    changes no figure beyond rounding.
    """
    largest = max(1, _LARGEST_LOGITS // (plan.slots * plan.vocabulary_size))
    batch_size = min(batch_size, largest, max(len(samples), 1))
    step = _compiled(model, plan, seed)
    progress = Progress(label, len(samples), "samples")
    positions, scores = [], []
    for start in range(0, len(samples), batch_size):
        batch = samples[start : start + batch_size]
        filled = _filled(batch, batch_size)
        answers = step(filled.input_ids, filled.attention_mask.astype(np.int32), filled.index)
        answers = {name: value.numpy()[: len(batch)] for name, value in answers.items()}
        asked, answered = _unpacked(batch, answers)
        positions.append(asked)
        scores.append(answered)
        progress.to(start + len(batch))
    return Scored(joined(positions), joined(scores))


def _compiled(model, plan: MaskingPlan, seed: int):
    @tf.function
    def step(input_ids, attention_mask, index):
        batch = mask_batch(input_ids, attention_mask, index, plan, seed, FIXED_EPOCH)
        logits = masked_logits(model, batch, training=False)
        return answers_from_logits(logits, batch["labels"]) | {
            "input_ids": batch["input_ids"],
            "positions": batch["positions"],
            "in_use": batch["weights"] > 0,
        }

    return step


def answers_from_logits(logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
    """Scores of `labels` [batch, slots] under `logits` [batch, slots, vocabulary].

    `log_probability` and `top_probability` float32, `rank` and `top` int32, all
    [batch, slots].
    """
    log_probabilities = tf.nn.log_softmax(logits, axis=-1)
    of_label = tf.gather(logits, labels, batch_dims=2)[..., tf.newaxis]
    ids = tf.range(tf.shape(logits)[-1], dtype=labels.dtype)
    above = (logits > of_label) | ((logits == of_label) & (ids < labels[..., tf.newaxis]))
    return {
        "log_probability": tf.gather(log_probabilities, labels, batch_dims=2),
        "rank": 1 + tf.reduce_sum(tf.cast(above, tf.int32), axis=-1),
        "top": tf.argmax(logits, axis=-1, output_type=tf.int32),
        "top_probability": tf.exp(tf.reduce_max(log_probabilities, axis=-1)),
    }


def _filled(batch: Samples, size: int) -> Samples:
    """`batch` brought to `size` rows with copies of its first."""
    short = size - len(batch)
    return batch[np.r_[np.arange(len(batch)), np.zeros(short, int)]] if short else batch


def _unpacked(batch: Samples, answers: dict[str, np.ndarray]) -> tuple[Positions, Scores]:
    """Slots in any order [batch, slots] as rows in the order of the places."""
    in_use, places = answers["in_use"], answers["positions"]
    rows = np.nonzero(in_use)[0]
    columns = places[in_use]
    chosen = np.zeros(batch.input_ids.shape, bool)
    chosen[rows, columns] = True
    asked = positions_of(
        batch.input_ids, batch.attention_mask, answers["input_ids"], chosen, batch.index
    )
    order = np.lexsort((columns, rows))

    def ordered(name, kind):
        return answers[name][in_use][order].astype(kind)

    return asked, Scores(
        log_probability=ordered("log_probability", np.float64),
        rank=ordered("rank", np.int64),
        top=ordered("top", np.int32),
        top_probability=ordered("top_probability", np.float64),
    )

"""A model's answers at the masked positions of samples, through TensorFlow.

Logits are computed at the masked positions only, with shapes that do not change from batch to
batch: the last batch is filled up, and the filling dropped.
"""

from collections.abc import Callable

import numpy as np

from mlm.framework import tf
from mlm.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.prediction import masked_logits
from mlm.predictions import Positions, Scored, Scores, joined, positions_of
from mlm.progress_line import Progress
from mlm.split_samples import Samples

#: Logits of one batch: 2^26 float32 values are 256 MB, and the softmax needs a few copies.
_LARGEST_LOGITS = 2**26


class Scorer:
    """Scores an exported model on samples, on whatever devices `strategy` spans."""

    def __init__(self, model, strategy: tf.distribute.Strategy, batch_size: int):
        """`batch_size` is that of all replicas together, and rounded up to their number.

        It is lowered where the logits would not fit in memory. It changes no figure beyond
        rounding.
        """
        self._model, self._strategy, self._batch_size = model, strategy, batch_size

    def score(
        self, samples: Samples, plan: MaskingPlan, seed: int, label: str = "evaluation"
    ) -> Scored:
        """Mask each sample with (seed, its index in the split) and score the model there.

        Every masked position of every sample counts once, in the order of the samples and
        of the places in them.
        """
        model = self._model

        def step(input_ids, attention_mask, index):
            batch = mask_batch(input_ids, attention_mask, index, plan, seed, FIXED_EPOCH)
            logits = masked_logits(model, batch, training=False)
            return answers_from_logits(logits, batch["labels"]) | {
                "input_ids": batch["input_ids"],
                "positions": batch["positions"],
                "in_use": batch["weights"] > 0,
            }

        positions, scores = [], []
        for batch, answers in self._run(step, samples, plan.slots, label):
            asked, answered = _unpacked(batch, answers)
            positions.append(asked)
            scores.append(answered)
        return Scored(joined(positions), joined(scores))

    def log_probabilities(
        self,
        input_ids: np.ndarray,
        attention_mask: np.ndarray,
        positions: np.ndarray,
        labels: np.ndarray,
    ) -> np.ndarray:
        """Log-probability in nats of one label a row, float64 [batch].

        `input_ids` and `attention_mask` are [batch, sequence], `positions` and `labels`
        [batch].
        """
        model = self._model
        asked = np.stack([positions, labels], axis=1).astype(np.int64)

        def step(input_ids, attention_mask, index):
            place, label = tf.unstack(tf.gather(tf.constant(asked, tf.int32), index), axis=1)
            batch = {
                "input_ids": input_ids,
                "attention_mask": attention_mask,
                "positions": place[:, tf.newaxis],
            }
            logits = masked_logits(model, batch, training=False)
            answers = answers_from_logits(logits, label[:, tf.newaxis])
            return {"log_probability": answers["log_probability"]}

        rows = Samples(np.arange(len(input_ids)), input_ids, attention_mask)
        parts = [a["log_probability"][:, 0] for _, a in self._run(step, rows, 1, "minimal pairs")]
        return np.concatenate(parts).astype(np.float64)

    def _run(self, step: Callable, samples: Samples, slots: int, label: str):
        """(batch, its answers as arrays [batch, …]) for the samples in order."""
        strategy, replicas = self._strategy, self._strategy.num_replicas_in_sync
        vocabulary = self._model.config.vocab_size
        largest = max(1, _LARGEST_LOGITS // (slots * vocabulary))
        wanted = min(-(-self._batch_size // replicas), -(-len(samples) // replicas))
        each = max(1, min(wanted, largest))
        size = each * replicas
        compiled = tf.function(lambda *arguments: strategy.run(step, arguments))
        progress = Progress(label, len(samples), "samples")
        for start in range(0, len(samples), size):
            batch = samples[start : start + size]
            filled = _filled(batch, size)
            arrays = (filled.input_ids, filled.attention_mask.astype(np.int32), filled.index)
            answers = compiled(*(_distributed(strategy, a, each) for a in arrays))
            gathered = {
                name: np.concatenate(
                    [v.numpy() for v in strategy.experimental_local_results(value)]
                )
                for name, value in answers.items()
            }
            yield batch, {name: value[: len(batch)] for name, value in gathered.items()}
            progress.to(start + len(batch))


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


def _distributed(strategy, array: np.ndarray, each: int):
    """`array` [batch, …] cut into the replicas' shares."""
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(
            array[
                context.replica_id_in_sync_group * each : (context.replica_id_in_sync_group + 1)
                * each
            ]
        )
    )


def _filled(batch: Samples, size: int) -> Samples:
    """`batch` brought to `size` rows with copies of its first."""
    short = size - len(batch)
    return batch[np.r_[np.arange(len(batch)), np.zeros(short, int)]] if short else batch


def _unpacked(batch: Samples, answers: dict[str, np.ndarray]) -> tuple[Positions, Scores]:
    """Slots in any order [batch, slots] as rows in the order of the places."""
    in_use = answers["in_use"]
    rows, columns = np.nonzero(in_use)[0], answers["positions"][in_use]
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

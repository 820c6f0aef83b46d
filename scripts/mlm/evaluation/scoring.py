"""A model's answers at the masked positions of samples, through TensorFlow.

Logits are computed at the masked positions only, with shapes that do not change from batch to
batch: the last batch is filled up, and the filling dropped.
"""

from collections.abc import Callable

import numpy as np

from mlm.batches.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.evaluation.predictions import Positions, Scored, Scores, positions_of
from mlm.foundations.framework import tf
from mlm.foundations.progress_line import Progress
from mlm.pretraining.prediction import masked_logits, traceable
from mlm.shards.split_samples import Samples, joined

#: Logits of one batch: 2^26 float32 values are 256 MB, and the softmax needs a few copies.
_LARGEST_LOGITS = 2**26


class Scorer:
    """Scores an exported model on samples, on whatever devices `strategy` spans."""

    def __init__(
        self, model, strategy: tf.distribute.Strategy, batch_size: int, plan: MaskingPlan, seed: int
    ):
        """`plan` and `seed` are those of the masks.

        `batch_size` is that of all replicas together, and rounded up to their number. It is
        lowered where the logits would not fit in memory. It changes no figure beyond
        rounding.
        """
        self._model, self._strategy, self._batch_size = model, strategy, batch_size
        self._plan = plan

        def as_given(input_ids, attention_mask, positions, labels):
            batch = {
                "input_ids": input_ids,
                "attention_mask": attention_mask,
                "positions": positions[:, tf.newaxis],
            }
            logits = masked_logits(model, batch, training=False)
            return answers_from_logits(logits, labels[:, tf.newaxis])

        masked = masked_answers(model, plan, seed)
        self._masked = tf.function(lambda *a: strategy.run(masked, a))
        self._as_given = tf.function(lambda *a: strategy.run(traceable(model, as_given), a))

    def score(self, samples: Samples, label: str = "evaluation") -> Scored:
        """Mask each sample with (seed, its index in the split) and score the model there.

        Every masked position of every sample counts once, in the order of the samples and
        of the places in them.
        """
        arrays = (samples.input_ids, samples.attention_mask.astype(np.int32), samples.index)
        positions, scores = [], []
        for rows, answers in self._run(self._masked, arrays, self._plan.slots, label):
            asked, answered = _unpacked(samples[rows], answers)
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
        [batch], all int32. Nothing is masked here.
        """
        arrays = (input_ids, attention_mask, positions, labels)
        found = self._run(self._as_given, arrays, 1, "minimal pairs")
        return np.concatenate([a["log_probability"][:, 0] for _, a in found]).astype(np.float64)

    def _run(self, compiled: Callable, arrays: tuple[np.ndarray, ...], slots: int, label: str):
        """(slice of the rows, their answers as arrays [rows, …]) for all rows in order."""
        strategy, replicas = self._strategy, self._strategy.num_replicas_in_sync
        rows = len(arrays[0])
        vocabulary = self._model.config.vocab_size
        largest = rows_of_a_replica(self._batch_size, replicas, slots, vocabulary)
        each = max(1, min(largest, -(-rows // replicas)))
        progress = None
        for start in range(0, rows, each * replicas):
            batch = slice(start, min(start + each * replicas, rows))
            count = batch.stop - batch.start
            answers = compiled(*(_distributed(strategy, a[batch], each) for a in arrays))
            gathered = {
                name: np.concatenate([v.numpy() for v in strategy.experimental_local_results(x)])
                for name, x in answers.items()
            }
            yield batch, {name: value[:count] for name, value in gathered.items()}
            # The first batch is compiled, which says nothing of the rate.
            progress = progress or Progress(label, rows, "samples")
            progress.to(batch.stop)


def rows_of_a_replica(batch_size: int, replicas: int, slots: int, vocabulary: int) -> int:
    """Samples that one of `replicas` scores at once, of `batch_size` for all of them together.

    Fewer than its share where logits [rows, slots, vocabulary] would not fit in memory.
    """
    largest = max(1, _LARGEST_LOGITS // (slots * vocabulary))
    return max(1, min(-(-batch_size // replicas), largest))


def masked_answers(model, plan: MaskingPlan, seed: int) -> Callable[..., dict[str, tf.Tensor]]:
    """The step of an evaluation: masks samples, and gives what the model answers there.

    Takes `input_ids` and `attention_mask` [batch, sequence] and `index` [batch]. Adds to
    `answers_from_logits` the masked `input_ids`, the `positions`, and which are `in_use`.
    """

    def masked(input_ids, attention_mask, index):
        batch = mask_batch(input_ids, attention_mask, index, plan, seed, FIXED_EPOCH)
        logits = masked_logits(model, batch, training=False)
        return answers_from_logits(logits, batch["labels"]) | {
            "input_ids": batch["input_ids"],
            "positions": batch["positions"],
            "in_use": batch["weights"] > 0,
        }

    return traceable(model, masked)


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
    """`array` [rows, …] cut into shares of `each` rows, filled up with copies of its first."""
    short = each * strategy.num_replicas_in_sync - len(array)
    array = array[np.r_[np.arange(len(array)), np.zeros(short, int)]]

    def share(context):
        start = context.replica_id_in_sync_group * each
        return tf.constant(array[start : start + each])

    return strategy.experimental_distribute_values_from_function(share)


def _unpacked(batch: Samples, answers: dict[str, np.ndarray]) -> tuple[Positions, Scores]:
    """Slots in any order [batch, slots] as rows in the order of the places."""
    in_use = answers["in_use"]
    rows, columns = np.nonzero(in_use)[0], answers["positions"][in_use]
    chosen = np.zeros(batch.input_ids.shape, bool)
    chosen[rows, columns] = True
    asked = positions_of(
        batch.input_ids,
        batch.attention_mask,
        answers["input_ids"],
        chosen,
        batch.index,
        batch.group,
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

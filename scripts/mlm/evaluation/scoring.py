"""A model's answers at the masked positions of samples, through TensorFlow.

Logits are computed at the masked positions only, with shapes that do not change from batch to
batch: the last batch is filled up, and the filling dropped.
"""

from collections.abc import Callable

import numpy as np

from mlm.batches.masking import MaskingPlan, mask_batch
from mlm.evaluation.predictions import Positions, Scored, Scores, positions_of
from mlm.foundations.framework import tf
from mlm.foundations.progress_line import Progress
from mlm.pretraining.in_tensorflow.prediction import masked_logits, traceable
from mlm.shards.split_samples import Samples, joined

#: Logits of one batch: 2^26 float32 values are 256 MB, and the softmax needs a few copies.
_LARGEST_LOGITS = 2**26
#: Of a masked batch, what the model needs for its answers.
_ASKED = ("input_ids", "attention_mask", "positions", "labels")


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
        self._plan, self._seed = plan, seed
        answers = masked_answers(model)
        self._answers = tf.function(lambda *a: strategy.run(answers, a))

    def score(self, samples: Samples, label: str = "evaluation") -> Scored:
        """Mask each sample with (seed, its index in the split) and score the model there.

        Every masked position of every sample counts once, in the order of the samples and
        of the places in them.
        """

        def asked(rows: slice) -> dict[str, np.ndarray]:
            part = samples[rows]
            return mask_batch(
                part.input_ids, part.attention_mask, part.index, self._plan, self._seed
            )

        positions, scores = [], []
        for rows, batch, answers in self._run(len(samples), asked, self._plan.slots, label):
            known, answered = _unpacked(samples[rows], batch, answers)
            positions.append(known)
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
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "positions": positions[:, np.newaxis],
            "labels": labels[:, np.newaxis],
        }
        found = self._run(
            len(input_ids), lambda rows: {k: v[rows] for k, v in given.items()}, 1, "minimal pairs"
        )
        answered = [answers["log_probability"][:, 0] for _, _, answers in found]
        return np.concatenate(answered).astype(np.float64)

    def _run(self, rows: int, asked: Callable[[slice], dict], slots: int, label: str):
        """(slice of the rows, what `asked` gives of it, the answers to that) for all in order.

        Answers are arrays [rows, slots].
        """
        strategy, replicas = self._strategy, self._strategy.num_replicas_in_sync
        vocabulary = self._model.config.vocab_size
        largest = rows_of_a_replica(self._batch_size, replicas, slots, vocabulary)
        each = max(1, min(largest, -(-rows // replicas)))
        progress = None
        for start in range(0, rows, each * replicas):
            batch = slice(start, min(start + each * replicas, rows))
            count = batch.stop - batch.start
            question = asked(batch)
            answers = self._answers(
                *(_distributed(strategy, question[name], each) for name in _ASKED)
            )
            gathered = {
                name: np.concatenate([v.numpy() for v in strategy.experimental_local_results(x)])
                for name, x in answers.items()
            }
            yield batch, question, {name: value[:count] for name, value in gathered.items()}
            # The first batch is compiled, which says nothing of the rate.
            progress = progress or Progress(label, rows, "samples")
            progress.to(batch.stop)


def rows_of_a_replica(batch_size: int, replicas: int, slots: int, vocabulary: int) -> int:
    """Samples that one of `replicas` scores at once, of `batch_size` for all of them together.

    Fewer than its share where logits [rows, slots, vocabulary] would not fit in memory.
    """
    largest = max(1, _LARGEST_LOGITS // (slots * vocabulary))
    return max(1, min(-(-batch_size // replicas), largest))


def masked_answers(model) -> Callable[..., dict[str, tf.Tensor]]:
    """The step of an evaluation: `answers_from_logits` at the masked positions.

    Takes `input_ids` and `attention_mask` [batch, sequence], masked already, and `positions` and
    `labels` [batch, slots], all int32.
    """

    def step(input_ids, attention_mask, positions, labels):
        batch = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "positions": positions,
        }
        return answers_from_logits(masked_logits(model, batch, training=False), labels)

    return traceable(model, step)


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


def _unpacked(samples: Samples, batch: dict, answers: dict) -> tuple[Positions, Scores]:
    """Slots in any order [batch, slots] as rows in the order of the places."""
    in_use = batch["weights"] > 0
    rows, columns = np.nonzero(in_use)[0], batch["positions"][in_use]
    chosen = np.zeros(samples.input_ids.shape, bool)
    chosen[rows, columns] = True
    asked = positions_of(
        samples.input_ids,
        samples.attention_mask,
        batch["input_ids"],
        chosen,
        samples.index,
        samples.group,
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

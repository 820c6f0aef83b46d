"""An exported model that answers through TensorFlow."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.evaluation.exported_model import load_model
from mlm.evaluation.scoring import ASKED, AnsweringModel
from mlm.foundations.tensorflow_setup import as_written, make_deterministic, tf
from mlm.training.in_tensorflow.devices import open_strategy
from mlm.training.in_tensorflow.prediction import masked_logits


def open_model(directory: Path, accelerator: Accelerator, seed: int) -> AnsweringModel:
    """The model in `directory` on the devices of `accelerator`."""
    strategy = open_strategy(accelerator).strategy
    make_deterministic(seed)
    with strategy.scope():
        model = load_model(directory)
    step = masked_answers(model)
    compiled = tf.function(lambda **batch: strategy.run(step, kwargs=batch))

    def answers(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = compiled(**{name: _divided(strategy, batch[name]) for name in ASKED})
        return {
            name: np.concatenate([v.numpy() for v in strategy.experimental_local_results(value)])
            for name, value in found.items()
        }

    return AnsweringModel(answers, strategy.num_replicas_in_sync, model.config.vocab_size)


def masked_answers(model) -> Callable[..., dict[str, tf.Tensor]]:
    """The step of an evaluation: `answers_from_logits` at `positions` [batch, slots] of `input_ids`
    and `attention_mask` [batch, sequence], all int32."""

    def step(**batch):
        return answers_from_logits(masked_logits(model, batch, training=False), batch["labels"])

    return as_written(step)


def answers_from_logits(logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
    """The answers of `AnsweringModel` for `labels` [batch, slots] under `logits` [batch, slots,
    vocabulary]."""
    log_probabilities = tf.nn.log_softmax(logits, axis=-1)
    of_label = tf.gather(logits, labels, batch_dims=2)[..., tf.newaxis]
    ids = tf.range(tf.shape(logits)[-1], dtype=labels.dtype)
    above = (logits > of_label) | ((logits == of_label) & (ids < labels[..., tf.newaxis]))
    return {
        "log_probability": tf.gather(log_probabilities, labels, batch_dims=2),
        "rank": 1 + tf.reduce_sum(tf.cast(above, tf.int32), axis=-1),
        "top_probability": tf.exp(tf.reduce_max(log_probabilities, axis=-1)),
    }


def _divided(strategy, array: np.ndarray):
    """`array` [rows, …] cut into shares of one size."""
    each = len(array) // strategy.num_replicas_in_sync

    def share(context):
        start = context.replica_id_in_sync_group * each
        return tf.constant(array[start : start + each])

    return strategy.experimental_distribute_values_from_function(share)

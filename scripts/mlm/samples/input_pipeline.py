"""Masked batches as TensorFlow's datasets, and the replicas' shares of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.foundations.tensorflow_setup import as_written, tf
from mlm.samples.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.samples.split_samples import ShardFiles, validation_samples
from mlm.samples.stored_batches import BatchOrder, stored_batches

#: What `mask_batch` gives of each sample: the kind, and one number for what.
_MASKED = {
    "input_ids": (tf.int32, "sequence"),
    "attention_mask": (tf.int32, "sequence"),
    "positions": (tf.int32, "slots"),
    "labels": (tf.int32, "slots"),
    "weights": (tf.float32, "slots"),
    "overflow": (tf.int32, "sample"),
}


def parse_records(serialized: tf.Tensor, sequence_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`input_ids` and `attention_mask`, int32 [batch, sequence], of serialized records [batch]."""
    feature = tf.io.FixedLenFeature((sequence_length,), tf.int64)
    parsed = tf.io.parse_example(serialized, {"input_ids": feature, "attention_mask": feature})
    return tf.cast(parsed["input_ids"], tf.int32), tf.cast(parsed["attention_mask"], tf.int32)


def read_batches(shards: ShardFiles, order: BatchOrder) -> tf.data.Dataset:
    """The batches as stored: (epoch, sample index, ids, attention), [batch] and [batch,
    sequence]."""
    shape = (order.global_batch_size,)
    stored = tf.data.Dataset.from_generator(
        partial(_stored, stored_batches, shards, order),
        output_signature=tuple(tf.TensorSpec(shape, t) for t in (tf.int64, tf.int64, tf.string)),
    )

    @as_written
    def parsed(epoch, index, serialized):
        return epoch, index, *parse_records(serialized, shards.sequence_length)

    return _deterministic(stored.map(parsed, num_parallel_calls=tf.data.AUTOTUNE))


def _stored(read: Callable, *asked) -> Iterator[tuple]:
    try:
        yield from read(*asked)
    except MlmError as error:
        _failures.append(error)
        raise


#: What went wrong in reading, of which TensorFlow hands on no more than the text.
_failures: list[MlmError] = []


@contextmanager
def reading_in_words() -> Iterator[None]:
    """Raise the MlmError that stopped the batches in place of TensorFlow's error for it."""
    try:
        yield
    except tf.errors.OpError:
        if not _failures:
            raise
        raise _failures.pop() from None


def training_batches(
    shards: ShardFiles,
    plan: MaskingPlan,
    order: BatchOrder,
    beside: Callable[[int], dict[str, np.ndarray]] | None = None,
) -> tf.data.Dataset:
    """The batches of `mask_batch`, and arrays of one shape that each step needs `beside` them, a
    function of its number from 0; `weights` are divided by the number of predictions in the whole
    batch, so that the sum of the replicas' losses is the batch's mean."""
    example = beside(0) if beside else {}

    def on_host(step):
        return list(beside(int(step)).values())

    @as_written
    def masked(step, stored):
        epoch, index, ids, attention = stored
        batch = _masked(ids, attention, index, plan, order.seed, epoch)
        total = tf.maximum(tf.reduce_sum(batch["weights"]), 1.0)
        batch["weights"] /= total
        if example:
            kinds = [tf.as_dtype(array.dtype) for array in example.values()]
            values = tf.numpy_function(on_host, [step], kinds, stateful=False)
            for (name, array), value in zip(example.items(), values, strict=True):
                batch[name] = tf.ensure_shape(value, array.shape)
        return batch

    batches = read_batches(shards, order).enumerate(order.start_step)
    return _deterministic(batches.map(masked, num_parallel_calls=tf.data.AUTOTUNE))


def _masked(ids, attention, index, plan: MaskingPlan, seed: int, epoch) -> dict[str, tf.Tensor]:
    def on_host(*arrays):
        found = mask_batch(*arrays[:3], plan, seed, arrays[3])
        return [found[name] for name in _MASKED]

    kinds = [kind for kind, _ in _MASKED.values()]
    values = tf.numpy_function(on_host, [ids, attention, index, epoch], kinds, stateful=False)
    sizes = {"sequence": (plan.sequence_length,), "slots": (plan.slots,), "sample": ()}
    return {
        name: tf.ensure_shape(value, [ids.shape[0], *sizes[size]])
        for (name, (_, size)), value in zip(_MASKED.items(), values, strict=True)
    }


def validation_batches(
    shards: ShardFiles, plan: MaskingPlan, *, seed: int, batch_size: int, samples: int | None = None
) -> tf.data.Dataset:
    """Batches of all samples, or of `samples` at equal distances kept in memory, with masks that
    depend on (seed, sample index) alone and `sample_index` [batch] int64. The last batch is filled
    up with rows of index -1 and weight 0."""
    shape = (batch_size,)
    stored = tf.data.Dataset.from_generator(
        partial(_stored, validation_samples, shards, batch_size, samples),
        output_signature=tuple(tf.TensorSpec(shape, t) for t in (tf.int64, tf.string)),
    )
    if samples is not None:
        stored = stored.cache()

    @as_written
    def masked(index, serialized):
        ids, attention = parse_records(serialized, shards.sequence_length)
        batch = _masked(ids, attention, tf.maximum(index, 0), plan, seed, [FIXED_EPOCH])
        batch["weights"] *= tf.cast(index >= 0, tf.float32)[:, tf.newaxis]
        return batch | {"sample_index": index}

    return _deterministic(stored.map(masked, num_parallel_calls=tf.data.AUTOTUNE))


def replica_shares(
    batches: tf.data.Dataset, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """One element for each replica that the input worker `context` feeds, batch after batch:
    replica r gets the r-th share of every array, whatever the number of workers."""
    replicas = context.num_replicas_in_sync
    local = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local

    @as_written
    def divided(batch):
        by_replica = {k: tf.reshape(v, [replicas, -1, *v.shape[1:]]) for k, v in batch.items()}
        parts = {k: v[first : first + local] for k, v in by_replica.items()}
        return tf.data.Dataset.from_tensor_slices(parts)

    return _deterministic(batches.flat_map(divided))


def _deterministic(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

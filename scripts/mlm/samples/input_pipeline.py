"""Masked batches as TensorFlow's datasets, and the replicas' shares of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.foundations.tensorflow_setup import as_written, tf
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.samples.split_samples import ShardFiles, validation_samples
from mlm.samples.stored_batches import BatchOrder, stored_batches

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
    beside: Callable[[int], dict[str, np.ndarray]] = lambda step: {},
) -> tf.data.Dataset:
    """The batches of `mask_batch`, and arrays of one shape that each step needs `beside` them, a
    function of its number from 0; `weights` are divided by the number of predictions in the whole
    batch, so that the sum of the replicas' losses is the batch's mean."""

    def numbered() -> Iterator[tuple]:
        stored = stored_batches(shards, order)
        for step, (epoch, index, records) in enumerate(stored, order.start_step):
            yield step, epoch, index, *_tokens(shards, index, records)

    def masked(
        step: Any, epoch: Any, index: Any, ids: Any, attention: Any
    ) -> dict[str, np.ndarray]:
        batch = mask_batch(ids, attention, index, plan, order.seed, epoch)
        batch["weights"] /= np.maximum(batch["weights"].sum(), 1)
        return batch | beside(int(step))

    size, rows = (order.global_batch_size,), (order.global_batch_size, shards.sequence_length)
    numbers = ((), tf.int64), (size, tf.int64), (size, tf.int64)
    return _on_host(_stored(numbered, *numbers, (rows, tf.int32), (rows, tf.int32)), masked)


def validation_batches(
    shards: ShardFiles, plan: MaskingPlan, *, seed: int, batch_size: int, samples: int | None = None
) -> tf.data.Dataset:
    """Batches of all samples, or of `samples` at equal distances kept in memory, with masks that
    depend on (seed, sample index) alone and `sample_index` [batch] int64. The last batch is filled
    up with rows of index -1 and weight 0."""

    def masked(index: Any, ids: Any, attention: Any) -> dict[str, np.ndarray]:
        batch = mask_batch(ids, attention, np.maximum(index, 0), plan, seed)
        batch["weights"] *= (index >= 0)[:, None]
        return batch | {"sample_index": index}

    def read() -> Iterator[tuple]:
        for index, records in validation_samples(shards, batch_size, samples):
            yield index, *_tokens(shards, index, records)

    rows = (batch_size, shards.sequence_length)
    stored = _stored(read, ((batch_size,), tf.int64), (rows, tf.int32), (rows, tf.int32))
    if samples is not None:
        stored = stored.cache()
    return _on_host(stored, masked)


def _tokens(shards: ShardFiles, index: np.ndarray, records: np.ndarray) -> list[np.ndarray]:
    return [array.astype(np.int32) for array in shards.decoded(index, records)]


def _stored(read: Callable[[], Iterator[tuple]], *parts: tuple) -> tf.data.Dataset:
    """The batches that `read` yields, of `parts` with these shapes and types."""

    def yielded() -> Iterator[tuple]:
        try:
            yield from read()
        except MlmError as error:
            _failures.append(error)
            raise

    signature = tuple(tf.TensorSpec(*part) for part in parts)
    return tf.data.Dataset.from_generator(yielded, output_signature=signature)


def _on_host(
    stored: tf.data.Dataset, function: Callable[..., dict[str, np.ndarray]]
) -> tf.data.Dataset:
    """`function`, in NumPy, of the parts of each batch."""
    specs: Any = stored.element_spec
    example = function(*(np.zeros(tuple(s.shape), s.dtype.as_numpy_dtype) for s in specs))

    def called(*arrays: Any) -> list[np.ndarray]:
        return list(function(*arrays).values())

    @as_written
    def mapped(*parts: Any) -> dict[str, tf.Tensor]:
        kinds = [tf.as_dtype(array.dtype) for array in example.values()]
        values = tf.numpy_function(called, list(parts), kinds, stateful=False)
        arrays = zip(example.items(), values, strict=True)
        return {name: tf.ensure_shape(value, array.shape) for (name, array), value in arrays}

    return _deterministic(stored.map(mapped, num_parallel_calls=tf.data.AUTOTUNE))


def replica_shares(
    batches: tf.data.Dataset, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """One element for each replica that the input worker `context` feeds, batch after batch:
    replica r gets the r-th share of every array, whatever the number of workers."""
    replicas = context.num_replicas_in_sync
    local = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local

    @as_written
    def divided(batch: dict[str, tf.Tensor]) -> tf.data.Dataset:
        by_replica = {k: tf.reshape(v, [replicas, -1, *v.shape[1:]]) for k, v in batch.items()}
        parts: Any = {k: v[first : first + local] for k, v in by_replica.items()}
        return tf.data.Dataset.from_tensor_slices(parts)

    return _deterministic(batches.flat_map(divided))


def _deterministic(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

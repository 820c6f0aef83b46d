"""From shards to masked batches: the order of the samples and the replicas' shares.

The stream of a run is epoch after epoch, each in its own order, cut into global batches
without regard to epochs: every batch has the same shape and no sample is dropped. Batch k is
a function of (manifest, seed, batch size, shuffle window, k).
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlm.batches.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.foundations.errors import MlmError
from mlm.foundations.framework import as_written, tf
from mlm.shards.manifests import Manifest

#: Shards read side by side, and records taken from one before the next.
_CYCLE, _BLOCK = 4, 16
_LARGEST_INDEX = 2**32


@dataclass(frozen=True)
class ShardFiles:
    """The shards of one split as the reader needs them."""

    files: tuple[str, ...]
    first_index: tuple[int, ...]
    num_samples: int
    sequence_length: int
    compression: str

    @classmethod
    def of(cls, manifest: Manifest, root: str | Path = ".") -> "ShardFiles":
        """The shards a manifest names, below `root` (a directory or gs:// prefix).

        Raises MlmError for more samples than masks can be keyed for (2^32).
        """
        if manifest.num_samples >= _LARGEST_INDEX:
            raise MlmError(
                f"{manifest.split}: {manifest.num_samples} samples; masks are keyed by a "
                "32-bit sample index. Use a longer sequence length or fewer documents."
            )
        first, start = [], 0
        for shard in manifest.shards:
            first.append(start)
            start += shard.num_samples
        root = str(root).rstrip("/")
        return cls(
            files=tuple(
                s.path if "://" in s.path or s.path.startswith("/") else f"{root}/{s.path}"
                for s in manifest.shards
            ),
            first_index=tuple(first),
            num_samples=manifest.num_samples,
            sequence_length=manifest.sequence_length,
            compression="GZIP" if manifest.compression == "gzip" else "",
        )


def _records(shards: ShardFiles, files: tf.Tensor, first_index: tf.Tensor) -> tf.data.Dataset:
    """(sample index, serialized record) of the given shards, interleaved deterministically."""

    @as_written
    def read(file, first):
        return tf.data.TFRecordDataset(file, compression_type=shards.compression).enumerate(first)

    return tf.data.Dataset.from_tensor_slices((files, first_index)).interleave(
        read,
        cycle_length=min(_CYCLE, len(shards.files)),
        block_length=_BLOCK,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def parse_records(serialized: tf.Tensor, sequence_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`input_ids` and `attention_mask`, int32 [batch, sequence], of serialized records [batch]."""
    feature = tf.io.FixedLenFeature((sequence_length,), tf.int64)
    parsed = tf.io.parse_example(serialized, {"input_ids": feature, "attention_mask": feature})
    return tf.cast(parsed["input_ids"], tf.int32), tf.cast(parsed["attention_mask"], tf.int32)


@as_written
def _one_epoch(shards: ShardFiles, seed: int, epoch: tf.Tensor, window: int) -> tf.data.Dataset:
    """(sample index, serialized record) in the order of one epoch."""
    key = tf.stack([tf.constant(seed, tf.int64), epoch])
    order = tf.random.experimental.stateless_shuffle(tf.range(len(shards.files)), seed=key)
    files = tf.gather(tf.constant(shards.files), order)
    first = tf.gather(tf.constant(shards.first_index, tf.int64), order)
    records = _records(shards, files, first)
    # The order follows from the seed of the epoch; TF's own reshuffling would depend on how
    # often the dataset was iterated in this process.
    return records.shuffle(
        min(window, shards.num_samples),
        seed=tf.constant(seed, tf.int64) * 1_000_003 + epoch,
        reshuffle_each_iteration=False,
    )


@dataclass(frozen=True)
class BatchOrder:
    """Batches `start_step` to `steps` of a run, each of exactly `global_batch_size`, in an order
    that `seed` and `shuffle_window` (samples) decide."""

    seed: int
    global_batch_size: int
    shuffle_window: int
    start_step: int
    steps: int


def read_batches(shards: ShardFiles, order: BatchOrder) -> tf.data.Dataset:
    """The batches as they were stored: (epoch, sample index, ids, attention), [batch] and
    [batch, sequence]."""
    seed, shuffle_window = order.seed, order.shuffle_window
    start_step, steps, global_batch_size = order.start_step, order.steps, order.global_batch_size
    first_sample = start_step * global_batch_size
    first_epoch, skipped = divmod(first_sample, shards.num_samples)
    last_epoch = -(-steps * global_batch_size // shards.num_samples)
    begun = _one_epoch(shards, seed, tf.constant(first_epoch, tf.int64), shuffle_window)
    later = tf.data.Dataset.range(first_epoch + 1, max(last_epoch, first_epoch + 1)).flat_map(
        lambda epoch: _one_epoch(shards, seed, epoch, shuffle_window)
    )
    stream = begun.skip(skipped).concatenate(later)

    @as_written
    def parsed(step, batch):
        index, serialized = batch
        # A call for every record would cost more than all else: the epoch follows from the
        # place in the stream.
        place = step * global_batch_size + tf.range(global_batch_size, dtype=tf.int64)
        epoch = place // shards.num_samples
        return epoch, index, *parse_records(serialized, shards.sequence_length)

    batches = stream.batch(global_batch_size, drop_remainder=True)
    numbered = tf.data.Dataset.zip((tf.data.Dataset.range(start_step, steps), batches))
    return _deterministic(numbered.map(parsed, num_parallel_calls=tf.data.AUTOTUNE))


def training_batches(shards: ShardFiles, plan: MaskingPlan, order: BatchOrder) -> tf.data.Dataset:
    """The batches, masked.

    Beside what `mask_batch` returns, `weights` are divided by the number of predictions in
    the whole batch, so that the sum of the replicas' losses is the batch's mean.
    """

    @as_written
    def masked(epoch, index, ids, attention):
        batch = mask_batch(ids, attention, index, plan, order.seed, epoch)
        total = tf.maximum(tf.reduce_sum(batch["weights"]), 1.0)
        return batch | {"weights": batch["weights"] / total}

    batches = read_batches(shards, order)
    return _deterministic(batches.map(masked, num_parallel_calls=tf.data.AUTOTUNE))


def evaluation_batches(
    shards: ShardFiles,
    plan: MaskingPlan,
    *,
    seed: int,
    batch_size: int,
    samples: int | None = None,
) -> tf.data.Dataset:
    """Batches of the split in order, with masks that depend on (seed, sample index) alone.

    `samples` samples at equal distances (`mlm.shards.split_samples.evenly_spread`), or all. A
    part is kept in memory, so that the split is read once however often it is asked. The last
    batch is filled up to `batch_size` with copies of its first row whose weights are 0, so
    that all shapes are equal and no sample is left out. Adds `sample_index` [batch] int64, -1
    for the filling.
    """
    files = tf.data.TFRecordDataset(list(shards.files), compression_type=shards.compression)
    stream = files.enumerate()
    if samples is not None and samples < shards.num_samples:
        stream = stream.filter(partial(_is_spread, shards.num_samples, samples)).cache()

    @as_written
    def filled(index, serialized):
        short = batch_size - tf.shape(index)[0]
        index = tf.concat([index, tf.fill([short], tf.constant(-1, tf.int64))], axis=0)
        serialized = tf.concat([serialized, tf.repeat(serialized[:1], short)], axis=0)
        ids, attention = parse_records(serialized, shards.sequence_length)
        batch = mask_batch(ids, attention, tf.maximum(index, 0), plan, seed, FIXED_EPOCH)
        real = tf.cast(index >= 0, tf.float32)
        batch["weights"] *= real[:, tf.newaxis]
        batch["sample_index"] = index
        return {k: tf.ensure_shape(v, [batch_size, *v.shape[1:]]) for k, v in batch.items()}

    batches = stream.batch(batch_size).map(filled, num_parallel_calls=tf.data.AUTOTUNE)
    return _deterministic(batches)


@as_written
def _is_spread(total: int, count: int, index: tf.Tensor, _serialized: tf.Tensor) -> tf.Tensor:
    """Whether `index` is one of `evenly_spread(total, count)`."""
    nearest = (index * count + total - 1) // total
    return (nearest * total // count == index) & (nearest < count)


def replica_shares(
    batches: tf.data.Dataset, context: tf.distribute.InputContext, global_batch_size: int
) -> tf.data.Dataset:
    """One element for each replica that the input worker `context` feeds, batch after batch.

    Replica r gets samples r × share to (r + 1) × share of every global batch. Each worker
    reads the whole stream and keeps its part, so that neither the number of workers nor that
    of the shards shapes what is trained on.
    """
    local = context.num_replicas_in_sync // context.num_input_pipelines
    share = global_batch_size // context.num_replicas_in_sync
    first = context.input_pipeline_id * local * share

    @as_written
    def divided(batch):
        parts = {
            k: tf.reshape(v[first : first + local * share], [local, share, *v.shape[1:]])
            for k, v in batch.items()
        }
        return tf.data.Dataset.from_tensor_slices(parts)

    return _deterministic(batches.flat_map(divided))


def _deterministic(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

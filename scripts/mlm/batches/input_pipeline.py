"""From shards to masked batches: the order of the samples and the replicas' shares.

The stream of a run is epoch after epoch, each in its own order (`mlm.batches.sample_order`), cut
into global batches without regard to epochs: every batch has the same shape and no sample is
dropped. Batch k is a function of (manifest, seed, batch size, shuffle window, k), and beginning
with it costs one group of samples.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mlm.batches.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.batches.sample_order import SampleOrder
from mlm.foundations.errors import MlmError
from mlm.foundations.framework import as_written, tf
from mlm.shards.blocks import ReadableBlocks, ShardBlocks
from mlm.shards.manifests import Manifest, place_of

_LARGEST_INDEX = 2**32
#: What `mask_batch` gives of each sample: the kind, and one number for what.
_MASKED = {
    "input_ids": (tf.int32, "sequence"),
    "attention_mask": (tf.int32, "sequence"),
    "positions": (tf.int32, "slots"),
    "labels": (tf.int32, "slots"),
    "weights": (tf.float32, "slots"),
    "overflow": (tf.int32, "sample"),
}


@dataclass(frozen=True)
class ShardFiles:
    """The shards of one split as the reader needs them."""

    blocks: tuple[ShardBlocks, ...]
    sequence_length: int

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
        blocks = tuple(
            ShardBlocks(
                path=place_of(shard, root),
                name=shard.path,
                num_samples=shard.num_samples,
                compression=manifest.compression,
                offsets=shard.block_offsets,
            )
            for shard in manifest.shards
        )
        return cls(blocks, manifest.sequence_length)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the shards, in order."""
        return tuple(shard.path for shard in self.blocks)

    @property
    def num_samples(self) -> int:
        return sum(shard.num_samples for shard in self.blocks)

    @property
    def compression(self) -> str:
        """As TensorFlow calls it."""
        return "GZIP" if self.blocks and self.blocks[0].compression == "gzip" else ""


def parse_records(serialized: tf.Tensor, sequence_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`input_ids` and `attention_mask`, int32 [batch, sequence], of serialized records [batch]."""
    feature = tf.io.FixedLenFeature((sequence_length,), tf.int64)
    parsed = tf.io.parse_example(serialized, {"input_ids": feature, "attention_mask": feature})
    return tf.cast(parsed["input_ids"], tf.int32), tf.cast(parsed["attention_mask"], tf.int32)


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
    shape = (order.global_batch_size,)
    stored = tf.data.Dataset.from_generator(
        partial(_stored_batches, shards, order),
        output_signature=tuple(tf.TensorSpec(shape, t) for t in (tf.int64, tf.int64, tf.string)),
    )

    @as_written
    def parsed(epoch, index, serialized):
        return epoch, index, *parse_records(serialized, shards.sequence_length)

    return _deterministic(stored.map(parsed, num_parallel_calls=tf.data.AUTOTUNE))


def _stored_batches(shards: ShardFiles, order: BatchOrder) -> Iterator[tuple]:
    """(epoch, sample index, serialized record) of each batch, [batch].

    While the samples of a group are handed out, those of the next are read.
    """
    samples = SampleOrder(
        tuple(s.num_samples for s in shards.blocks), order.seed, order.shuffle_window
    )
    size = order.global_batch_size
    place, end = order.start_step * size, order.steps * size
    if place >= end:
        return
    with ThreadPoolExecutor(1) as reader:
        try:
            blocks = ReadableBlocks(shards.blocks)
            groups = samples.groups_from(place, end)
            coming = reader.submit(_read_group, blocks, samples, *next(groups))
            waiting: list[tuple] = []
            while coming is not None:
                epoch, first, indices, records = coming.result()
                following = next(groups, None)
                coming = following and reader.submit(_read_group, blocks, samples, *following)
                start = max(0, place - first)
                epochs = np.full(len(indices) - start, epoch)
                waiting.append((epochs, indices[start:], records[start:]))
                if coming is not None and sum(len(part[0]) for part in waiting) < size:
                    continue
                epochs, indices, records = map(np.concatenate, zip(*waiting, strict=True))
                whole = min(len(epochs) // size * size, end - place)
                # A copy: a part of an array would keep all of it in memory.
                waiting = [tuple(a[whole:].copy() for a in (epochs, indices, records))]
                for at in range(0, whole, size):
                    batch = slice(at, at + size)
                    yield epochs[batch], indices[batch], records[batch]
                place += whole
                del epochs, indices, records
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


def _read_group(
    blocks: ReadableBlocks, order: SampleOrder, epoch: int, number: int
) -> tuple[int, int, np.ndarray, np.ndarray]:
    """The epoch, the place of a group's first sample in the stream, and the indices and records
    [samples] of all, in their order."""
    group = order.group(epoch, number)
    records = np.empty(group.samples, object)
    for block, start, end in zip(group.blocks, group.starts, group.ends, strict=True):
        shard, within = order.block(int(block))
        records[start:end] = blocks[shard].read(within)
    indices = order.group_indices(group)
    return epoch, epoch * order.num_samples + group.first, indices, records[group.shuffled()]


def training_batches(shards: ShardFiles, plan: MaskingPlan, order: BatchOrder) -> tf.data.Dataset:
    """The batches, masked.

    Beside what `mask_batch` returns, `weights` are divided by the number of predictions in
    the whole batch, so that the sum of the replicas' losses is the batch's mean.
    """

    @as_written
    def masked(epoch, index, ids, attention):
        batch = _masked(ids, attention, index, plan, order.seed, epoch)
        total = tf.maximum(tf.reduce_sum(batch["weights"]), 1.0)
        return batch | {"weights": batch["weights"] / total}

    batches = read_batches(shards, order)
    return _deterministic(batches.map(masked, num_parallel_calls=tf.data.AUTOTUNE))


def _masked(ids, attention, index, plan: MaskingPlan, seed: int, epoch) -> dict[str, tf.Tensor]:
    """`mask_batch` on the host, of tensors."""

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
        batch = _masked(ids, attention, tf.maximum(index, 0), plan, seed, [FIXED_EPOCH])
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

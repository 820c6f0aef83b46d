"""A split's samples as stored, in the order in which training and validation use them.

The stream of a run is epoch after epoch, each in its own order (`mlm.samples.shuffling`), cut
into global batches without regard to epochs: every batch has the same shape and no sample is
dropped. Batch k is a function of (manifest, seed, batch size, shuffle window, k), and beginning
with it costs one group of samples.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.samples.blocks import ReadableBlocks, ShardBlocks
from mlm.samples.manifests import Manifest, place_of
from mlm.samples.shuffling import BLOCK_SAMPLES, SampleOrder
from mlm.samples.split_samples import evenly_spread

_LARGEST_INDEX = 2**32


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


@dataclass(frozen=True)
class BatchOrder:
    """Batches `start_step` to `steps` of a run, each of exactly `global_batch_size`, in an order
    that `seed` and `shuffle_window` (samples) decide."""

    seed: int
    global_batch_size: int
    shuffle_window: int
    start_step: int
    steps: int

    def of_samples(self, shards: ShardFiles) -> SampleOrder:
        """The order of the split's samples that the batches are cut from."""
        samples = tuple(shard.num_samples for shard in shards.blocks)
        return SampleOrder(samples, self.seed, self.shuffle_window)

    def updates_of(self, places: np.ndarray) -> np.ndarray:
        """Numbers, from 1, of the updates that use the samples at `places` of the stream."""
        return places // self.global_batch_size + 1

    def first_update(self, shards: ShardFiles, samples: Iterable[int]) -> int | None:
        """The first update, from 1, that uses one of the `samples` of the split; None if none of
        `steps` does."""
        index = np.unique(np.fromiter(samples, np.int64))
        stream, end = self.of_samples(shards), self.steps * self.global_batch_size
        for epoch in range(-(-end // stream.num_samples) if len(index) else 0):
            first = int(stream.places(index, epoch).min())
            if first < end:
                return int(self.updates_of(np.array([first]))[0])
        return None


def stored_batches(shards: ShardFiles, order: BatchOrder) -> Iterator[tuple]:
    """(epoch, sample index, serialized record) of each batch, [batch].

    While the samples of a group are handed out, those of the next are read.
    """
    samples = order.of_samples(shards)
    size = order.global_batch_size
    place, end = order.start_step * size, order.steps * size
    if place >= end:
        return
    with ThreadPoolExecutor(1) as reader:
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


def samples_in_order(
    shards: ShardFiles, count: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Indices and records [samples] of a split block by block: all, or `count` of them at equal
    distances (`evenly_spread`)."""
    blocks, first = ReadableBlocks(shards.blocks), 0
    chosen = evenly_spread(shards.num_samples, shards.num_samples if count is None else count)
    for number, shard in enumerate(shards.blocks):
        for block in range(shard.num_blocks):
            samples = min(BLOCK_SAMPLES, shard.num_samples - block * BLOCK_SAMPLES)
            indices = chosen[
                np.searchsorted(chosen, first) : np.searchsorted(chosen, first + samples)
            ]
            if len(indices):
                records = np.empty(samples, object)
                records[:] = blocks[number].read(block)
                yield indices, records[indices - first]
            first += samples


def evaluation_samples(
    shards: ShardFiles, size: int, count: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`samples_in_order` in batches of `size`, the last filled up with copies of its first record
    under the index -1."""
    indices, records = np.zeros(0, np.int64), np.zeros(0, object)
    for part in samples_in_order(shards, count):
        indices, records = np.r_[indices, part[0]], np.r_[records, part[1]]
        while len(indices) >= size:
            yield indices[:size], records[:size]
            indices, records = indices[size:], records[size:]
    if short := -len(indices) % size:
        yield np.r_[indices, np.full(short, -1)], np.r_[records, np.repeat(records[:1], short)]

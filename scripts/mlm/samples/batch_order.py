"""A split's samples as stored, in the order in which training uses them: the stream of epochs
(`mlm.samples.sample_order`) in global batches, each a function of manifest, `BatchOrder` and
its number."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from mlm.samples.sample_order import SampleOrder
from mlm.samples.shard_reading import ShardFiles


@dataclass(frozen=True)
class BatchOrder:
    """Batches `start_step` to `steps` of a run, whose sample stream began with batch `first`."""

    seed: int
    global_batch_size: int
    shuffle_window: int
    start_step: int
    steps: int
    first: int = 0

    @property
    def end(self) -> int:
        """Number of places of the stream that are used."""
        return (self.steps - self.first) * self.global_batch_size

    def of_samples(self, shards: ShardFiles) -> SampleOrder:
        window = max(1, self.shuffle_window // shards.row_samples)
        return SampleOrder(shards.shard_rows, self.seed, window, shards.row_samples)

    def updates_of(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers, from 1, of the updates that use `places` of the stream."""
        return places // self.global_batch_size + 1 + self.first


def stored_batches(shards: ShardFiles, order: BatchOrder) -> Iterator[tuple]:
    """Yield epochs, sample indices and rows, [batch]; the next group is read meanwhile."""
    samples = order.of_samples(shards)
    size = order.global_batch_size
    place, end = (order.start_step - order.first) * size, order.end
    if place >= end:
        return
    with ThreadPoolExecutor(1) as reader:
        groups = samples.groups_from(place, end)
        coming = reader.submit(_read_group, shards, samples, *next(groups))
        waiting: list[tuple] = []
        while coming is not None:
            epoch, first, indices, records = coming.result()
            following = next(groups, None)
            coming = following and reader.submit(_read_group, shards, samples, *following)
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
    shards: ShardFiles, order: SampleOrder, epoch: int, number: int
) -> tuple[int, int, np.ndarray, np.ndarray]:
    """Return the epoch, the place of a group's first sample in the stream, its indices and rows."""
    of_epoch = order.epoch(epoch)
    places = np.arange(*of_epoch.group_starts[number : number + 2])
    records = np.concatenate([shards.read(block) for block in of_epoch.group(number).tolist()])
    first, unshuffled = places[0], of_epoch.unshuffled(places)
    indices = of_epoch.samples(unshuffled)
    return epoch, epoch * order.num_samples + int(first), indices, records[unshuffled - first]

"""Which sample is used when, as a formula: known for any step without reading data.

Every epoch orders the blocks of all shards (at most `BLOCK_SAMPLES` consecutive records) anew,
takes so many at a time as a group, and orders the samples of a group among themselves. So reading
takes whole blocks, and memory holds a group. Both orders are keyed permutations: functions of
(seed, epoch, place) alone, which can be inverted.

A permutation is a Feistel network (Luby and Rackoff, 1988) over the smallest even number of bits;
what falls outside is permuted again until it falls inside (Black and Rogaway, "Ciphers with
arbitrary finite domains", 2002). The rounds mix bits as SplitMix64 does (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", 2014).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

#: Samples of a block, the unit that is shuffled: its offset in its shard is known.
BLOCK_SAMPLES = 1024
_ROUNDS = 6
#: Networks over fewer bits have too few different rounds to be like any permutation.
_FEWEST_HALF_BITS = 3
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(x: np.ndarray) -> np.ndarray:
    """SplitMix64's output function on uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class KeyedPermutation:
    """A permutation of 0 … `size` - 1 that `key`, whole numbers from 0, decides."""

    def __init__(self, size: int, *key: int):
        self.size = size
        self._half = max(_FEWEST_HALF_BITS, -(-max(size - 1, 1).bit_length() // 2))
        state = np.zeros(1, np.uint64)
        for number in key:
            state = _mixed(state + _GOLDEN + np.uint64(number))
        self._keys = _mixed(state + _GOLDEN * np.arange(1, _ROUNDS + 1, dtype=np.uint64))

    def items(self, places: np.ndarray) -> np.ndarray:
        """What stands at each of `places`; int64 of their shape."""
        return self._walk(places, self._keys, forth=True)

    def places(self, items: np.ndarray) -> np.ndarray:
        """Where each of `items` stands; int64 of their shape."""
        return self._walk(items, self._keys[::-1], forth=False)

    def _walk(self, values: np.ndarray, keys: np.ndarray, forth: bool) -> np.ndarray:
        found = np.array(values, np.uint64)
        if self.size < 2:
            return found.astype(np.int64)
        outside = np.ones(found.shape, bool)
        while outside.any():
            found[outside] = self._network(found[outside], keys, forth)
            outside = found >= self.size
        return found.astype(np.int64)

    def _network(self, x: np.ndarray, keys: np.ndarray, forth: bool) -> np.ndarray:
        bits = np.uint64(self._half)
        low = np.uint64((1 << self._half) - 1)
        left, right = x >> bits, x & low
        if not forth:
            left, right = right, left
        for key in keys:
            left, right = right, left ^ (_mixed(right + key) & low)
        return (left << bits) | right if forth else (right << bits) | left


@dataclass(frozen=True)
class BlockGroup:
    """Blocks that are read together, and the order of their samples.

    `blocks` [blocks] are their numbers in the split, `ends` [blocks] the samples up to and with
    each, `first` the place of the group's first sample in the epoch.
    """

    first: int
    blocks: np.ndarray
    ends: np.ndarray
    order: KeyedPermutation

    @property
    def samples(self) -> int:
        return int(self.ends[-1])

    @property
    def starts(self) -> np.ndarray:
        """Samples of the group before each block."""
        return np.concatenate([[0], self.ends[:-1]])

    def shuffled(self) -> np.ndarray:
        """Where the group's samples stand in its blocks one after the other, in their order."""
        return self.order.items(np.arange(self.samples))


@dataclass(frozen=True)
class SampleOrder:
    """The order of a split's samples, epoch after epoch; `window` samples on average make a
    group."""

    shard_samples: tuple[int, ...]
    seed: int
    window: int

    @cached_property
    def num_samples(self) -> int:
        return sum(self.shard_samples)

    @cached_property
    def _first_sample(self) -> np.ndarray:
        return np.cumsum((0, *self.shard_samples))

    @cached_property
    def _first_block(self) -> np.ndarray:
        return np.cumsum((0, *(-(-n // BLOCK_SAMPLES) for n in self.shard_samples)))

    @cached_property
    def _group_blocks(self) -> int:
        return max(1, self.window * int(self._first_block[-1]) // self.num_samples)

    def samples(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Epochs and indices of the samples at `places` of the stream; int64 of their shape."""
        epochs, within = np.divmod(np.asarray(places, np.int64), self.num_samples)
        indices = np.empty_like(within)
        for epoch in np.unique(epochs):
            chosen = epochs == epoch
            indices[chosen] = self._epoch_samples(int(epoch), within[chosen])
        return epochs, indices

    def places(self, indices: np.ndarray, epoch: int) -> np.ndarray:
        """Where in the stream `epoch` uses the samples `indices`; int64 of their shape."""
        indices = np.asarray(indices, np.int64)
        shards = np.searchsorted(self._first_sample, indices, side="right") - 1
        within = indices - self._first_sample[shards]
        blocks = self._first_block[shards] + within // BLOCK_SAMPLES
        turns = self._blocks(epoch).places(blocks)
        found = np.empty_like(indices)
        for number in np.unique(turns // self._group_blocks):
            group = self.group(epoch, int(number))
            chosen = turns // self._group_blocks == number
            block = turns[chosen] % self._group_blocks
            place = group.starts[block] + within[chosen] % BLOCK_SAMPLES
            found[chosen] = group.first + group.order.places(place)
        return found + epoch * self.num_samples

    def groups_from(self, place: int, end: int) -> Iterator[tuple[int, int]]:
        """Epoch and number of each group with a place of the stream from `place` up to `end`."""
        epoch, within = divmod(place, self.num_samples)
        number = int(np.searchsorted(_group_starts(self, epoch), within, side="right") - 1)
        while epoch * self.num_samples + _group_starts(self, epoch)[number] < end:
            yield epoch, number
            number += 1
            if number == self.num_groups:
                epoch, number = epoch + 1, 0

    @cached_property
    def num_groups(self) -> int:
        """Groups in an epoch."""
        return -(-int(self._first_block[-1]) // self._group_blocks)

    def group(self, epoch: int, number: int) -> BlockGroup:
        """Group `number` of `epoch`."""
        first = number * self._group_blocks
        last = min(first + self._group_blocks, int(self._first_block[-1]))
        blocks = self._blocks(epoch).items(np.arange(first, last))
        ends = np.cumsum(self._block_samples(blocks))
        order = KeyedPermutation(int(ends[-1]), self.seed, epoch, number + 1)
        return BlockGroup(int(_group_starts(self, epoch)[number]), blocks, ends, order)

    def block(self, number: int) -> tuple[int, int]:
        """The shard of a block, and its number in the shard."""
        shards, within = self._shards_of(np.array([number]))
        return int(shards[0]), int(within[0])

    def _shards_of(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shards = np.searchsorted(self._first_block, blocks, side="right") - 1
        return shards, blocks - self._first_block[shards]

    def group_indices(self, group: BlockGroup) -> np.ndarray:
        """The indices of a group's samples, in their order."""
        return self._indices(group, group.shuffled())

    def _indices(self, group: BlockGroup, place: np.ndarray) -> np.ndarray:
        """The samples that stand at each `place` of the group's blocks."""
        turn = np.searchsorted(group.ends, place, side="right")
        blocks, within = group.blocks[turn], place - group.starts[turn]
        shards, number = self._shards_of(blocks)
        return self._first_sample[shards] + number * BLOCK_SAMPLES + within

    def _epoch_samples(self, epoch: int, within: np.ndarray) -> np.ndarray:
        starts = _group_starts(self, epoch)
        numbers = np.searchsorted(starts, within, side="right") - 1
        found = np.empty_like(within)
        for number in np.unique(numbers):
            group = self.group(epoch, int(number))
            chosen = numbers == number
            place = group.order.items(within[chosen] - group.first)
            found[chosen] = self._indices(group, place)
        return found

    def _blocks(self, epoch: int) -> KeyedPermutation:
        return KeyedPermutation(int(self._first_block[-1]), self.seed, epoch, 0)

    def _block_samples(self, blocks: np.ndarray) -> np.ndarray:
        shards, number = self._shards_of(blocks)
        left = np.asarray(self.shard_samples)[shards] - number * BLOCK_SAMPLES
        return np.minimum(BLOCK_SAMPLES, left)


@lru_cache(maxsize=4)
def _group_starts(order: SampleOrder, epoch: int) -> np.ndarray:
    """The place in the epoch of each group's first sample, and the epoch's end; all blocks are full
    except the last of a shard."""
    groups = order.num_groups
    last = np.unique(order._first_block[1:][np.diff(order._first_block) > 0]) - 1
    missing = BLOCK_SAMPLES - order._block_samples(last)
    group = order._blocks(epoch).places(last) // order._group_blocks
    ends = np.minimum(np.arange(1, groups + 1) * order._group_blocks, order._first_block[-1])
    full = ends * BLOCK_SAMPLES
    return np.concatenate([[0], full - np.cumsum(np.bincount(group, missing, groups))]).astype(
        np.int64
    )

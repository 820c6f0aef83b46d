"""Which sample is used when, as a formula: known for any step without reading data.

Every epoch orders the blocks of all shards (at most `BLOCK_SAMPLES` records) anew, and the samples
of so many blocks, a group, among themselves. Both orders are keyed permutations, functions of
(seed, epoch, place) that can be inverted: Feistel networks (Luby and Rackoff, 1988), walked until
within the size (Black and Rogaway, 2002), mixed as by SplitMix64 (Steele, Lea and Flood, 2014).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

#: Samples of a block, the unit that is shuffled: its offset in its shard is known.
BLOCK_SAMPLES = 1024
_ROUNDS = 6
#: Networks over fewer bits have too few different rounds to be like any permutation.
_FEWEST_HALF_BITS = 3
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def rows_of(samples: int, row_samples: int) -> int:
    """Return the rows of a shard with so many samples, if `row_samples` consecutive ones of a block
    are one; the last row of a block may have fewer."""
    blocks, rest = divmod(samples, BLOCK_SAMPLES)
    return blocks * -(-BLOCK_SAMPLES // row_samples) + -(-rest // row_samples)


def _scrambled(x: np.ndarray) -> np.ndarray:
    """Return SplitMix64's output function of uint64."""
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
            state = _scrambled(state + _GOLDEN + np.uint64(number))
        self._keys = _scrambled(state + _GOLDEN * np.arange(1, _ROUNDS + 1, dtype=np.uint64))

    def items(self, places: np.ndarray) -> np.ndarray:
        """Return the item at each of `places`; int64 of their shape."""
        return self._walk(places, self._keys, forth=True)

    def places(self, items: np.ndarray) -> np.ndarray:
        """Return the place of each of `items`; int64 of their shape."""
        return self._walk(items, self._keys[::-1], forth=False)

    def _walk(self, values: np.ndarray, keys: np.ndarray, forth: bool) -> np.ndarray:
        x = np.array(values, np.uint64)
        outside = np.full(x.shape, self.size > 1)
        while outside.any():
            x[outside] = self._network(x[outside], keys, forth)
            outside = x >= self.size
        return x.astype(np.int64)

    def _network(self, x: np.ndarray, keys: np.ndarray, forth: bool) -> np.ndarray:
        bits = np.uint64(self._half)
        low = np.uint64((1 << self._half) - 1)
        left, right = x >> bits, x & low
        if not forth:
            left, right = right, left
        for key in keys:
            left, right = right, left ^ (_scrambled(right + key) & low)
        return (left << bits) | right if forth else (right << bits) | left


class EpochOrder:
    """The order of an epoch over blocks that start at samples `firsts` [blocks + 1]: their numbers
    `blocks`, and where blocks and groups begin, `starts` and `group_starts`, ends included."""

    def __init__(self, firsts: np.ndarray, of_group: int, seed: int, epoch: int):
        count = len(firsts) - 1
        self._firsts, self._of_group, self._key = firsts, of_group, (seed, epoch)
        self._turns = KeyedPermutation(count, seed, epoch, 0)
        self.blocks = self._turns.items(np.arange(count))
        self.starts = np.append(0, np.cumsum(np.diff(firsts)[self.blocks]))
        self.group_starts = np.append(self.starts[:-1:of_group], self.starts[-1])

    def group(self, number: int) -> np.ndarray:
        """Return the numbers of the blocks of group `number`."""
        return self.blocks[number * self._of_group :][: self._of_group]

    def unshuffled(self, places: np.ndarray) -> np.ndarray:
        """Return the places, in the blocks one after the other, of the samples at `places`."""
        return self._in_groups(places, "items")

    def samples(self, unshuffled: np.ndarray) -> np.ndarray:
        """Return the indices of the samples at such places."""
        turns = np.searchsorted(self.starts, unshuffled, "right") - 1
        return self._firsts[self.blocks[turns]] + unshuffled - self.starts[turns]

    def places(self, indices: np.ndarray) -> np.ndarray:
        """Return the places in the epoch that use the samples `indices`."""
        blocks = np.searchsorted(self._firsts, indices, "right") - 1
        starts = self.starts[self._turns.places(blocks)]
        return self._in_groups(starts + indices - self._firsts[blocks], "places")

    def _in_groups(self, places: np.ndarray, way: str) -> np.ndarray:
        numbers = np.searchsorted(self.group_starts, places, "right") - 1
        ordered = np.empty_like(places)
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            first, end = self.group_starts[number : number + 2].tolist()
            order = KeyedPermutation(end - first, *self._key, number + 1)
            ordered[chosen] = first + getattr(order, way)(places[chosen] - first)
        return ordered


@dataclass(frozen=True)
class SampleOrder:
    """The order of a split's samples, or of its rows of `row_samples` samples, which are called
    samples here; `window` of them on average make a group."""

    shard_samples: tuple[int, ...]
    seed: int
    window: int
    row_samples: int = 1

    @cached_property
    def num_samples(self) -> int:
        return sum(self.shard_samples)

    @cached_property
    def _firsts(self) -> np.ndarray:
        ends = np.cumsum((0, *self.shard_samples))
        block = rows_of(BLOCK_SAMPLES, self.row_samples)
        starts = [np.arange(*edges, block) for edges in pairwise(ends.tolist())]
        return np.concatenate([*starts, ends[-1:]])

    def epoch(self, epoch: int) -> EpochOrder:
        """Return the order of `epoch`."""
        return _epoch_order(self, epoch)

    def samples(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return epochs and indices of the samples at `places` of the stream."""
        epochs, within = np.divmod(np.asarray(places, np.int64), self.num_samples)
        indices = np.empty_like(within)
        for number in np.unique(epochs).tolist():
            chosen, order = epochs == number, self.epoch(number)
            indices[chosen] = order.samples(order.unshuffled(within[chosen]))
        return epochs, indices

    def places(self, indices: np.ndarray, epoch: int) -> np.ndarray:
        """Return the places of the stream at which `epoch` uses the samples `indices`."""
        return self.epoch(epoch).places(np.asarray(indices, np.int64)) + epoch * self.num_samples

    def groups_from(self, place: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield epoch and number of each group with a place of the stream from `place` to `end`."""
        epoch, within = divmod(place, self.num_samples)
        number = int(np.searchsorted(self.epoch(epoch).group_starts, within, "right")) - 1
        while epoch * self.num_samples + self.epoch(epoch).group_starts[number] < end:
            yield epoch, number
            number += 1
            if number + 1 == len(self.epoch(epoch).group_starts):
                epoch, number = epoch + 1, 0


@lru_cache(maxsize=2)
def _epoch_order(order: SampleOrder, epoch: int) -> EpochOrder:
    firsts = order._firsts
    of_group = max(1, order.window * (len(firsts) - 1) // order.num_samples)
    return EpochOrder(firsts, of_group, order.seed, epoch)

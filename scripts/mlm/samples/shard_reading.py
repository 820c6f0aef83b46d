"""A split's samples as records and arrays, read without TensorFlow by blocks of `BLOCK_SAMPLES`
records (the last of a shard may be shorter)."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.samples.manifests import Manifest, Shard
from mlm.samples.sample_order import BLOCK_SAMPLES, rows_of
from mlm.samples.tfrecord import decode_samples, read_records

#: What a row lacks: ids (RoBERTa's padding; in other families nothing depends on the id), attention
#: mask and groups.
_FILLING = (1, 0, -1)


@dataclass(frozen=True)
class ShardFiles:
    """The shards of a split below `root`, read in rows of `row_samples` consecutive samples of a
    block, which count as the samples; `sequence_length` is a row's."""

    shards: tuple[Shard, ...]
    sequence_length: int
    root: Path = Path()
    row_samples: int = 1

    @classmethod
    def of(cls, manifest: Manifest, root: str | Path = ".") -> Self:
        """Return the shards of a manifest below `root`."""
        return cls(manifest.shards, manifest.sequence_length, Path(root), manifest.row_samples)

    def in_rows(self, row_samples: int) -> Self:
        """Return the same, whose samples are single, in rows of so many."""
        length = self.sequence_length * row_samples
        return replace(self, sequence_length=length, row_samples=row_samples)

    @cached_property
    def shard_rows(self) -> tuple[int, ...]:
        """Rows of each shard."""
        return tuple(rows_of(shard.num_samples, self.row_samples) for shard in self.shards)

    @cached_property
    def num_samples(self) -> int:
        return sum(self.shard_rows)

    def rows_with(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that the stored `samples` are in, and their places there."""
        firsts = np.cumsum([0, *(shard.num_samples for shard in self.shards)])
        shards = np.searchsorted(firsts, samples, "right") - 1
        blocks, within = np.divmod(samples - firsts[shards], BLOCK_SAMPLES)
        rows = np.cumsum([0, *self.shard_rows])[shards]
        rows += blocks * rows_of(BLOCK_SAMPLES, self.row_samples) + within // self.row_samples
        return rows, within % self.row_samples

    @cached_property
    def _first_blocks(self) -> np.ndarray:
        return np.cumsum([0, *(len(shard.block_offsets) for shard in self.shards)])

    def read(self, block: int) -> np.ndarray:
        """Return the rows of a block, each a record or a tuple of them."""
        shard = int(np.searchsorted(self._first_blocks, block, "right")) - 1
        number, size = block - int(self._first_blocks[shard]), self.row_samples
        records = read_block(self.shards[shard], number, self.root)
        rows = np.empty(rows_of(len(records), size), object)
        for row in range(len(rows)):
            rows[row] = records[row] if size == 1 else tuple(records[row * size :][:size])
        return rows

    def decoded(self, rows: np.ndarray, grouped: bool = False) -> list[np.ndarray]:
        """Return `decode_samples` of the `rows` that `read` gave; what a row lacks is padding."""
        length, size = self.sequence_length // self.row_samples, self.row_samples
        records, places = rows.tolist(), list(range(len(rows)))
        if size > 1:
            places = [i * size + j for i, row in enumerate(records) for j in range(len(row))]
            records = [record for row in records for record in row]
        arrays = decode_samples(records, length, grouped)
        if size == 1:
            return list(arrays)
        wholes = [np.full((len(rows) * size, length), x) for x in _FILLING[: len(arrays)]]
        for whole, array in zip(wholes, arrays, strict=True):
            whole[places] = array
        return [whole.reshape(len(rows), -1) for whole in wholes]


def read_block(shard: Shard, number: int, root: Path = Path()) -> list[bytes]:
    """Return the records of block `number` of a shard. Raises MlmError if it is damaged."""
    start, *end = shard.block_offsets[number : number + 2]
    expected = min(BLOCK_SAMPLES, shard.num_samples - number * BLOCK_SAMPLES)
    try:
        with (root / shard.path).open("rb") as stream:
            stream.seek(start)
            # A last block ends with the file.
            content = stream.read(end[0] - start if end else -1)
        name = f"block {number}, from byte {start} on"
        records = list(read_records(io.BytesIO(content), name))
        if len(records) != expected:
            raise MlmError(f"{name}: {len(records)} records, expected {expected}")
    except (OSError, MlmError) as error:
        raise MlmError(
            f"{shard.path} is not what its manifest says ({error}). Delete it and run the same "
            "command again, so that it is made again"
        ) from None
    return records


@dataclass(frozen=True)
class Rows:
    """Arrays of one length as a dataclass of them: what is chosen of one is chosen of all."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, chosen: Any) -> Self:
        return type(self)(*(getattr(self, f.name)[chosen] for f in fields(self)))


@dataclass(frozen=True)
class Samples(Rows):
    """Samples of a split: their `index` [samples] in it; `input_ids` int32, `attention_mask` bool
    and `group` int64 (-1 at padding, the index if shards have no groups), [samples, sequence]."""

    index: np.ndarray
    input_ids: np.ndarray
    attention_mask: np.ndarray
    group: np.ndarray


def read_samples(
    manifest: Manifest, root: str | Path = ".", chosen: np.ndarray | None = None
) -> Iterator[Samples]:
    """Yield the samples in order, or those at `chosen`, in batches. Raises MlmError for damage."""
    progress = Progress(f"reading {manifest.split}", manifest.num_samples, "samples")
    grouped = manifest.group_by is not None
    shards = ShardFiles.of(manifest, root)
    for index, records in samples_in_order(shards, chosen):
        ids, mask, *group = shards.decoded(records, grouped)
        group = group[0] if grouped else np.where(mask == 1, index[:, None], -1)
        yield Samples(index, ids.astype(np.int32), mask.astype(bool), group)
        progress.to(int(index[-1]) + 1)


def samples_in_order(
    shards: ShardFiles, chosen: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield indices and rows, block by block: of all, or of those `chosen`, ascending."""
    first, block = 0, 0
    chosen = np.arange(shards.num_samples) if chosen is None else chosen
    for shard in shards.shards:
        for number in range(len(shard.block_offsets)):
            stored = min(BLOCK_SAMPLES, shard.num_samples - number * BLOCK_SAMPLES)
            rows = rows_of(stored, shards.row_samples)
            start, end = np.searchsorted(chosen, [first, first + rows])
            if start < end:
                yield chosen[start:end], shards.read(block)[chosen[start:end] - first]
            first, block = first + rows, block + 1


def validation_samples(
    shards: ShardFiles, size: int, count: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield indices and rows of all samples, or of `count` at equal distances, in batches of
    `size`; the last is filled up with copies of its first row under the index -1."""
    indices, records = np.zeros(0, np.int64), np.zeros(0, object)
    chosen = None if count is None else evenly_spread(shards.num_samples, count)
    for part in samples_in_order(shards, chosen):
        indices, records = np.r_[indices, part[0]], np.r_[records, part[1]]
        while len(indices) >= size:
            yield indices[:size], records[:size]
            indices, records = indices[size:], records[size:]
    if short := -len(indices) % size:
        yield np.r_[indices, np.full(short, -1)], np.r_[records, np.repeat(records[:1], short)]


def spread_samples(manifest: Manifest, root: str | Path = ".", count: int | None = None) -> Samples:
    """Return at most `count` samples at equal distances (None: all): 13 bytes a token."""
    chosen = None if count is None else evenly_spread(manifest.num_samples, count)
    nothing = np.zeros((0, manifest.sequence_length), np.int64)
    empty = Samples(nothing[:, 0], nothing.astype(np.int32), nothing.astype(bool), nothing)
    return joined([empty, *read_samples(manifest, root, chosen)])


def joined(parts: list) -> Any:
    """Return several Rows of one kind as one."""
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(kind)))


def evenly_spread(total: int, count: int) -> np.ndarray:
    """Return `count` indices below `total` at equal distances, or all there are."""
    count = min(count, total)
    return np.arange(count, dtype=np.int64) * total // max(count, 1)

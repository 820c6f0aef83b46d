"""A split's samples as arrays, read from its shards without TensorFlow."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.samples.blocks import ShardFiles
from mlm.samples.manifests import Manifest
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.tfrecord import SampleError, decode_grouped_samples, decode_samples


class Rows:
    """Arrays of one length as a dataclass of them: what is chosen of one is chosen of all."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, chosen) -> Self:
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
    """The samples of a split in order, or those with the indices `chosen`, in batches. The
    manifest's paths are relative to `root`. Raises MlmError for damaged and unfit records."""
    progress = Progress(f"reading {manifest.split}", manifest.num_samples, "samples")
    for index, records in samples_in_order(ShardFiles.of(manifest, root), chosen):
        try:
            decode = decode_samples if manifest.group_by is None else decode_grouped_samples
            ids, mask, *group = decoded(index, records, manifest.sequence_length, decode)
        except MlmError as error:
            raise MlmError(f"{manifest.split}, {error}.") from None
        group = group[0] if group else np.where(mask == 1, index[:, None], -1)
        yield Samples(index, ids.astype(np.int32), mask.astype(bool), group)
        progress.to(int(index[-1]) + 1)


def samples_in_order(
    shards: ShardFiles, chosen: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Indices and records [samples] of a split block by block: all, or those `chosen`, ascending.
    Blocks without one of them are not read."""
    first = 0
    chosen = np.arange(shards.num_samples) if chosen is None else chosen
    for shard in shards.blocks:
        for block in range(shard.num_blocks):
            samples = min(BLOCK_SAMPLES, shard.num_samples - block * BLOCK_SAMPLES)
            start, end = np.searchsorted(chosen, [first, first + samples])
            if start < end:
                records = np.empty(samples, object)
                records[:] = shard.read(block)
                yield chosen[start:end], records[chosen[start:end] - first]
            first += samples


def evaluation_samples(
    shards: ShardFiles, size: int, count: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Indices and records of all samples, or of `count` at equal distances, in batches of `size`;
    the last is filled up with copies of its first record under the index -1."""
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
    """At most `count` samples at equal distances (None: all) at once: 13 bytes a token."""
    chosen = None if count is None else evenly_spread(manifest.num_samples, count)
    if parts := list(read_samples(manifest, root, chosen)):
        return joined(parts)
    nothing = np.zeros((0, manifest.sequence_length))
    index, ids = np.zeros(0, np.int64), nothing.astype(np.int32)
    return Samples(index, ids, nothing.astype(bool), nothing.astype(np.int64))


def joined(parts: list):
    """Several Rows of one kind as one."""
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(kind)))


def evenly_spread(total: int, count: int) -> np.ndarray:
    """`count` different indices below `total` at equal distances, or all there are."""
    count = min(count, total)
    return np.arange(count, dtype=np.int64) * total // max(count, 1)


def decoded(index: np.ndarray, records: np.ndarray, length: int, decode=decode_samples) -> tuple:
    """What `decode` makes of the records of the samples `index`; MlmError, naming the sample."""
    try:
        return decode(records.tolist(), length)
    except SampleError as error:
        raise MlmError(f"sample {index[error.place]}: a record {error}") from None

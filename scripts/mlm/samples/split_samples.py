"""A split's samples as arrays, read from its shards without TensorFlow."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.samples.manifests import Manifest, shard_file, shards_remedy
from mlm.samples.tf_example import SampleError, decode_grouped_samples, decode_samples
from mlm.samples.tfrecord import read_records

_BATCH = 1024


class Rows:
    """Arrays of one length as a dataclass of them: what is chosen of one is chosen of all."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, chosen) -> Self:
        return type(self)(*(getattr(self, f.name)[chosen] for f in fields(self)))


@dataclass(frozen=True)
class Samples(Rows):
    """Samples of a split: `index` [samples] is their place in it, from 0.

    `input_ids` int32, `attention_mask` bool and `group` int64 are [samples, sequence]. `group`
    says which tokens belong together, -1 at padding; where the shards do not say, it is the
    sample's index.
    """

    index: np.ndarray
    input_ids: np.ndarray
    attention_mask: np.ndarray
    group: np.ndarray


def read_samples(
    manifest: Manifest, root: str | Path = ".", every: int = 1, also: frozenset[int] = frozenset()
) -> Iterator[Samples]:
    """The samples of a split in order, in batches: each `every`-th, and those in `also`.

    `root` is the directory that the manifest's paths are relative to; a shard in object storage
    is downloaded while it is read. Raises MlmError for a damaged record, a sample of
    another length, or another number of samples than the manifest's.
    """
    progress = Progress(f"reading {manifest.split}", manifest.num_samples, "samples")
    index = 0
    for shard in manifest.shards:
        first = index
        waiting: list[tuple[int, bytes]] = []
        with shard_file(shard, root) as copy, copy.open("rb") as stream:
            for record in read_records(stream, shard.path):
                if index % every == 0 or index in also:
                    waiting.append((index, record))
                if len(waiting) == _BATCH:
                    yield _decoded(waiting, manifest, shard.path, first)
                    progress.to(index)
                    waiting = []
                index += 1
        if waiting:
            yield _decoded(waiting, manifest, shard.path, first)
        if index - first != shard.num_samples:
            raise MlmError(
                f"{shard.path}: holds {index - first} samples; its manifest says "
                f"{shard.num_samples}. {shards_remedy(manifest)}"
            )


def spread_samples(manifest: Manifest, root: str | Path = ".", count: int | None = None) -> Samples:
    """At most `count` samples at equal distances (None: all) at once: 13 bytes a token."""
    total = manifest.num_samples
    if count is None or count >= total:
        parts = list(read_samples(manifest, root))
    else:
        chosen = frozenset(evenly_spread(total, count).tolist())
        parts = list(read_samples(manifest, root, total, chosen))
    if not parts:
        nothing = np.zeros((0, manifest.sequence_length))
        index, ids = np.zeros(0, np.int64), nothing.astype(np.int32)
        return Samples(index, ids, nothing.astype(bool), nothing.astype(np.int64))
    return joined(parts)


def joined(parts: list):
    """Several Rows of one kind as one."""
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(kind)))


def evenly_spread(total: int, count: int) -> np.ndarray:
    """`count` different indices below `total` at equal distances, or all there are."""
    count = min(count, total)
    return np.arange(count, dtype=np.int64) * total // max(count, 1)


def _decoded(
    waiting: list[tuple[int, bytes]], manifest: Manifest, path: str, first: int
) -> Samples:
    records, length = [r for _, r in waiting], manifest.sequence_length
    index = np.array([i for i, _ in waiting], np.int64)
    try:
        if manifest.group_by is None:
            ids, mask = decode_samples(records, length)
            group = np.where(mask == 1, index[:, None], -1)
        else:
            ids, mask, spans = decode_grouped_samples(records, length)
            group = spans.of_tokens(length)
    except SampleError as error:
        number = waiting[error.place][0] - first
        raise MlmError(f"{path}: record {number}: {error}.") from None
    return Samples(index, ids.astype(np.int32), mask.astype(bool), group)

"""Blocks of a shard, runs of `BLOCK_SAMPLES` records (the last may be shorter) that can be read
from the middle of the file: a block's offset is the byte at which its first record starts."""

import io
from dataclasses import dataclass
from pathlib import Path

from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, place_of
from mlm.samples.object_storage import read_part
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.tfrecord import read_records

_LARGEST_INDEX = 2**32
_REMEDY = (
    "It is not what its manifest says. Delete it and run the same command again, so that it is "
    "made again, or put it back if it was made elsewhere"
)


@dataclass(frozen=True)
class ShardBlocks:
    """One shard, read by blocks: `path` is a file here or in object storage, `name` its name in
    messages, `offsets` [blocks] those of the manifest."""

    path: str
    name: str
    num_samples: int
    offsets: tuple[int, ...]

    @property
    def num_blocks(self) -> int:
        return -(-self.num_samples // BLOCK_SAMPLES)

    def read(self, number: int) -> list[bytes]:
        """The records of block `number`, their checksums verified. Raises MlmError if the file
        cannot be read, a record is damaged, or their number is wrong."""
        start = self.offsets[number]
        last = number + 1 == self.num_blocks
        name = f"{self.name}: block {number}, from byte {start} on"
        try:
            data = read_part(self.path, start, None if last else self.offsets[number + 1])
            records = list(read_records(io.BytesIO(data), name))
        except OSError as error:
            raise MlmError(f"{name}: cannot be read ({error}). {_REMEDY}") from None
        except MlmError as error:
            raise MlmError(f"{error}. {_REMEDY}") from None
        expected = min(BLOCK_SAMPLES, self.num_samples - number * BLOCK_SAMPLES)
        if len(records) != expected:
            raise MlmError(f"{name}: {len(records)} records, expected {expected}. {_REMEDY}")
        return records


@dataclass(frozen=True)
class ShardFiles:
    """The shards of one split as the reader needs them."""

    blocks: tuple[ShardBlocks, ...]
    sequence_length: int

    @classmethod
    def of(cls, manifest: Manifest, root: str | Path = ".") -> "ShardFiles":
        """The shards a manifest names, below `root` (a directory or gs:// prefix). Raises MlmError
        for more samples than masks can be keyed for (2^32)."""
        if manifest.num_samples >= _LARGEST_INDEX:
            raise MlmError(
                f"{manifest.split}: {manifest.num_samples} samples; masks are keyed by a "
                "32-bit sample index. Use a longer sequence length or fewer documents."
            )
        blocks = tuple(
            ShardBlocks(place_of(shard, root), shard.path, shard.num_samples, shard.block_offsets)
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

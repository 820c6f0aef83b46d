"""Blocks of a shard: runs of records that can be read from the middle of the file.

A block is `BLOCK_SAMPLES` records, the last of a shard what is left. Its offset is the byte at
which its first record starts; in a gzip file it is that of a deflate block to which nothing before
it matters (zlib's full flush), so that what is read from there on can be unpacked by itself.
"""

import gzip
import io
import shutil
import sys
import tempfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, place_of
from mlm.samples.object_storage import local_copy, read_part
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.tfrecord import framed_records, record_offsets

_LARGEST_INDEX = 2**32
_REMEDY = (
    "It is not what its manifest says. Delete it and run the same command again, so that it is "
    "made again, or put it back if it was made elsewhere"
)


@dataclass(frozen=True)
class ShardBlocks:
    """One shard, read by blocks.

    `path` is a file here or in object storage, `name` its name in messages; `offsets` [blocks]
    are those of the manifest, None if it has none.
    """

    path: str
    name: str
    num_samples: int
    compression: str
    offsets: tuple[int, ...] | None

    @property
    def num_blocks(self) -> int:
        return -(-self.num_samples // BLOCK_SAMPLES)

    def read(self, number: int) -> list[bytes]:
        """The records of block `number`, their checksums verified.

        Raises MlmError if the file cannot be read, a record is damaged, or their number is wrong.
        """
        start = self.offsets[number]
        last = number + 1 == self.num_blocks
        name = f"{self.name}: block {number}, from byte {start} on"
        try:
            data = read_part(self.path, start, None if last else self.offsets[number + 1])
            if self.compression == "gzip":
                # Without a header and, except in the last block, without the end of the stream.
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data)
        except (OSError, zlib.error) as error:
            raise MlmError(f"{name}: cannot be read ({error}). {_REMEDY}") from None
        try:
            records = [record for _, record in framed_records(io.BytesIO(data), name)]
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


class ReadableBlocks:
    """Shards that can all be read by blocks, for as long as this object lives.

    Those whose manifest has no offsets (gzip files that were made elsewhere) are unpacked into a
    temporary directory. Raises MlmError if one of them is damaged or has another number of records.
    """

    def __init__(self, shards: tuple[ShardBlocks, ...]):
        without = [n for n, s in enumerate(shards) if len(s.offsets or ()) != s.num_blocks]
        self._shards = list(shards)
        if not without:
            return
        self._unpacked = tempfile.TemporaryDirectory(prefix="shards-")
        names = shards[without[0]].name + (f" and {len(without) - 1} more" if without[1:] else "")
        print(
            f"{names}: no offsets of blocks in the manifest; unpacked into {self._unpacked.name}",
            file=sys.stderr,
        )
        for number in without:
            place = Path(self._unpacked.name) / str(number)
            self._shards[number] = _unpacked(shards[number], place)

    def __getitem__(self, shard: int) -> ShardBlocks:
        return self._shards[shard]


def _unpacked(shard: ShardBlocks, place: Path) -> ShardBlocks:
    """The shard without compression at `place`, with offsets."""
    opened = gzip.open if shard.compression == "gzip" else open
    try:
        with local_copy(shard.path) as file, opened(file, "rb") as packed, place.open("w+b") as out:
            shutil.copyfileobj(packed, out)
            out.seek(0)
            offsets = record_offsets(out, shard.name)
    except (OSError, EOFError, zlib.error) as error:
        raise MlmError(f"{shard.name}: cannot be read ({error}). {_REMEDY}") from None
    if len(offsets) != shard.num_samples:
        raise MlmError(
            f"{shard.name}: {len(offsets)} records, expected {shard.num_samples}. {_REMEDY}"
        )
    return replace(shard, path=str(place), compression="none", offsets=offsets[::BLOCK_SAMPLES])

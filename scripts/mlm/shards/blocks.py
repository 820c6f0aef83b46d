"""Blocks of a shard: runs of records that can be read from the middle of the file.

A block is `BLOCK_SAMPLES` records, the last of a shard what is left. Its offset is the byte at
which its first record starts; in a gzip file it is that of a deflate block to which nothing before
it matters (zlib's full flush), so that what is read from there on can be unpacked by itself.
"""

import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlm.foundations.errors import MlmError
from mlm.shards.object_storage import local_copy, read_range
from mlm.shards.tfrecord import BLOCK_SAMPLES, framed_records, record_offsets


@dataclass(frozen=True)
class ShardBlocks:
    """One shard to be read by blocks.

    `path` is a file here or in object storage, `name` what messages call it; `offsets` [blocks]
    are those of the manifest, None where it has none.
    """

    path: str
    name: str
    num_samples: int
    compression: str
    offsets: tuple[int, ...] | None

    @property
    def num_blocks(self) -> int:
        return -(-self.num_samples // BLOCK_SAMPLES)

    def read(self, number: int) -> Iterator[bytes]:
        """The records of block `number`, their checksums verified.

        Raises MlmError for a damaged record, with its byte.
        """
        start = self.offsets[number]
        last = number + 1 == self.num_blocks
        data = read_range(self.path, start, None if last else self.offsets[number + 1])
        name = f"{self.name}: block {number}"
        if self.compression == "gzip":
            try:
                # Without a header and, but for the last block, without the end of the stream.
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data)
            except zlib.error as error:
                raise MlmError(f"{name}: the gzip stream is damaged ({error})") from None
        return framed_records(io.BytesIO(data), name)


class ReadableBlocks:
    """Shards that can all be read by blocks, for as long as this object lives.

    Those without offsets, which were made elsewhere or by an earlier version, are read through once
    to find them; where they are compressed, they are unpacked into a temporary directory.
    """

    def __init__(self, shards: tuple[ShardBlocks, ...]):
        self._unpacked: tempfile.TemporaryDirectory | None = None
        self._shards = [s if _is_indexed(s) else self._indexed(s) for s in shards]

    def __getitem__(self, shard: int) -> ShardBlocks:
        return self._shards[shard]

    def _indexed(self, shard: ShardBlocks) -> ShardBlocks:
        with local_copy(shard.path) as file:
            place, what = file, "read through once"
            if shard.compression == "gzip":
                self._unpacked = self._unpacked or tempfile.TemporaryDirectory(prefix="shards-")
                place = Path(self._unpacked.name) / f"{len(os.listdir(self._unpacked.name))}"
                with gzip.open(file) as packed, place.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                what = f"unpacked ({place.stat().st_size / 1e6:,.0f} MB in {place.parent})"
            print(f"{shard.name}: its manifest has no offsets of blocks; {what}", file=sys.stderr)
            with place.open("rb") as stream:
                offsets = record_offsets(stream, shard.name)[::BLOCK_SAMPLES]
        if shard.compression == "gzip":
            return ShardBlocks(str(place), shard.name, shard.num_samples, "none", offsets)
        return ShardBlocks(shard.path, shard.name, shard.num_samples, "none", offsets)


def _is_indexed(shard: ShardBlocks) -> bool:
    return shard.offsets is not None and len(shard.offsets) == shard.num_blocks

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
from mlm.samples.object_storage import local_copy, read_range
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.tfrecord import framed_records, record_offsets

_REMEDY = (
    "It is not what its manifest says. Delete it and run the same command again, so that it is "
    "made again; a shard of shards.prebuilt is yours to put back"
)


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

    def read(self, number: int) -> list[bytes]:
        """The records of block `number`, their checksums verified.

        Raises MlmError where the file cannot be read, a record is damaged, or there are more or
        fewer than the block has.
        """
        start = self.offsets[number]
        last = number + 1 == self.num_blocks
        name = f"{self.name}: block {number}, from byte {start} on"
        try:
            data = read_range(self.path, start, None if last else self.offsets[number + 1])
            if self.compression == "gzip":
                # Without a header and, but for the last block, without the end of the stream.
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


class ReadableBlocks:
    """Shards that can all be read by blocks, for as long as this object lives.

    Those without offsets, which were made elsewhere or by an earlier version, are read through once
    to find them; where they are compressed, they are unpacked into a temporary directory. Raises
    MlmError where one of them is damaged or has another number of records than is said.
    """

    def __init__(self, shards: tuple[ShardBlocks, ...]):
        self._unpacked: tempfile.TemporaryDirectory | None = None
        without = [shard for shard in shards if not _is_indexed(shard)]
        if without:
            what = "read through once"
            if any(shard.compression == "gzip" for shard in without):
                self._unpacked = tempfile.TemporaryDirectory(prefix="shards-")
                what = f"unpacked into {self._unpacked.name}"
            names = without[0].name + (f" and {len(without) - 1} more" if without[1:] else "")
            print(f"{names}: no offsets of blocks in the manifest; {what}", file=sys.stderr)
        self._shards = [
            shard if _is_indexed(shard) else self._indexed(shard, number)
            for number, shard in enumerate(shards)
        ]

    def __getitem__(self, shard: int) -> ShardBlocks:
        return self._shards[shard]

    def _indexed(self, shard: ShardBlocks, number: int) -> ShardBlocks:
        place = None
        try:
            with local_copy(shard.path) as file:
                if shard.compression == "gzip":
                    place = Path(self._unpacked.name) / str(number)
                    with gzip.open(file) as packed, place.open("wb") as unpacked:
                        shutil.copyfileobj(packed, unpacked)
                with (place or file).open("rb") as stream:
                    offsets = record_offsets(stream, shard.name)
        except (OSError, EOFError, zlib.error) as error:
            raise MlmError(f"{shard.name}: cannot be read ({error}). {_REMEDY}") from None
        if len(offsets) != shard.num_samples:
            raise MlmError(
                f"{shard.name}: {len(offsets)} records, expected {shard.num_samples}. {_REMEDY}"
            )
        return replace(
            shard,
            path=str(place or shard.path),
            compression="none",
            offsets=offsets[::BLOCK_SAMPLES],
        )


def _is_indexed(shard: ShardBlocks) -> bool:
    return shard.offsets is not None and len(shard.offsets) == shard.num_blocks

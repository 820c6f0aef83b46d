"""Source files as streams of bytes, plain or compressed; damage is noticed and named."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa

from mlm.foundations.errors import MlmError

_BUFFER = 1 << 16


@contextmanager
def decompressed(file: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    """The bytes of the open `file` (compression: gzip, zstd or None) as a stream.

    Several compressed members or frames read as one. Reading raises MlmError for damaged data.
    """
    if compression is None:
        yield file
        return
    gzipped = compression == "gzip"
    bare = gzip.open(file) if gzipped else pa.CompressedInputStream(file, compression)
    checked = _Checked(bare, file.name, compression)
    with bare, io.BufferedReader(checked, _BUFFER) as stream:
        yield stream


class _Checked(io.RawIOBase):
    """The bytes of a compressed file; damage and a missing end are errors, not a short read."""

    def __init__(self, stream: BinaryIO, path: str, compression: str):
        self._stream, self._path, self._compression = stream, path, compression
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            if getattr(error, "errno", None):
                raise
            raise MlmError(
                f"{self._path}: the {self._compression} data is cut off or damaged after "
                f"{self._size:,} good bytes ({error}). Fetch or compress the file again"
            ) from None
        if not data and not self._size:
            raise MlmError(f"{self._path}: nothing is in it. Fill it or leave it out")
        self._size += len(data)
        buffer[: len(data)] = data
        return len(data)

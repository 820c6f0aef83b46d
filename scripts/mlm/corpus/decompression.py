"""Source files as streams of bytes, plain or compressed, where damage is noticed and named."""

import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import BinaryIO

import pyarrow as pa

from mlm.foundations.errors import MlmError


class _Checked:
    """The bytes of a compressed file; damage and a missing end are errors, not a short read."""

    def __init__(self, stream: BinaryIO, path: str, compression: str):
        self._stream, self._path, self._compression = stream, path, compression
        self._size = 0

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes (all that is left if negative); none at the end."""
        try:
            data = self._stream.read(size if size >= 0 else None)
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
        return data


class _Gunzipped:
    """The bytes of gzip members (RFC 1952) one after the other; zeros after one are padding.

    What follows the last member is an error of its own, after all good bytes, which `gzip` is not.
    """

    def __init__(self, handle: BinaryIO):
        self._handle, self._member, self._waiting = handle, zlib.decompressobj(31), b""
        self._begun = False

    def read(self, size: int | None = None) -> bytes:
        """At most `size` bytes, or all; fewer only at the end, or before what is no gzip."""
        found, left = [], size
        while left != 0:
            try:
                data = self._some(left or 0)
            except (EOFError, zlib.error):
                if found:
                    # Raised by the next call, which meets the same bytes.
                    break
                raise
            if not data:
                break
            found.append(data)
            left = None if left is None else left - len(data)
        return b"".join(found)

    def _some(self, most: int) -> bytes:
        """The next bytes, at most `most` of them unless it is 0; none at the end."""
        while True:
            # In short reads, so that the place in the file says what was used of it.
            compressed = self._waiting or self._handle.read(1 << 14)
            if not compressed:
                if self._begun:
                    raise EOFError("the end of the stream is missing")
                return b""
            if not self._begun and not (compressed := compressed.lstrip(b"\0")):
                self._waiting = b""
                continue
            if not self._begun and compressed[:1] != b"\x1f":
                self._waiting = compressed
                place = self._handle.tell() - len(compressed)
                raise EOFError(f"what follows from byte {place:,} of the file on is no gzip")
            self._begun, self._waiting = True, compressed
            data = self._member.decompress(compressed, most)
            self._waiting = self._member.unconsumed_tail
            if self._member.eof:
                self._waiting = self._member.unused_data
                self._member, self._begun = zlib.decompressobj(31), False
            if data:
                return data


def _decompressed(handle: BinaryIO, compression: str) -> AbstractContextManager[BinaryIO]:
    # Arrow takes the zeros that pad a file on a tape, or to whole blocks, for damage.
    if compression == "gzip":
        return nullcontext(_Gunzipped(handle))
    return pa.CompressedInputStream(handle, compression)


class ReadingPosition:
    """How far a list of files, or of ranges of them, has been read, in their bytes on disk."""

    def __init__(self, total: int):
        self._total, self._done, self._handle, self._start = total, 0, None, 0

    def share(self) -> float | None:
        """The share that was read, from 0 to 1."""
        here = 0
        if self._handle is not None and not self._handle.closed:
            here = max(self._handle.tell() - self._start, 0)
        return (self._done + here) / self._total if self._total else None

    @contextmanager
    def opened(
        self, path: str, compression: str | None, start: int = 0, stop: int | None = None
    ) -> Iterator[BinaryIO]:
        """The decompressed bytes of `path` (compression: gzip, zstd or None) as a stream.

        `start` and `stop` say of which bytes of the file documents will be read.
        Several compressed members or frames one after the other read as one; zeros after a
        gzip member are padding. While reading,
        MlmError is raised for damaged or truncated data.
        """
        with open(path, "rb") as handle:
            self._handle, self._start = handle, start
            if compression is None:
                yield handle
            else:
                with _decompressed(handle, compression) as stream:
                    yield _Checked(stream, path, compression)
            if not handle.closed:
                self._done += (handle.seek(0, 2) if stop is None else stop) - start
            self._handle = None

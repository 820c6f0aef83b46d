"""Where documents begin in a text file that several jobs read, each a range of its bytes."""

import os
from collections.abc import Iterator
from typing import BinaryIO

_BLOCK = 1 << 20
_BOM = b"\xef\xbb\xbf"


class BoundedStream:
    """The next `size` bytes of a file."""

    def __init__(self, handle: BinaryIO, size: int):
        self._handle, self._left = handle, size

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes (all that is left if negative); none at the end."""
        size = self._left if size < 0 else min(size, self._left)
        data = self._handle.read(size)
        self._left -= len(data)
        return data


def document_begin(handle: BinaryIO, position: int, per: str, encoding: str) -> int:
    """The first byte from `position` on into which no document reaches from before it.

    `per` says what a document is: line, or paragraph. The end of the file, where there is none.
    """
    if position == 0:
        return 0
    line = _after_line_feed(handle, position - 1)
    if per == "line" or _is_blank(_line_before(handle, line), encoding):
        return line
    handle.seek(line)
    while (text := handle.readline()) and not _is_blank(text, encoding):
        line += len(text)
    return line


def line_feeds_before(handle: BinaryIO, position: int) -> int:
    """How many lines end before byte `position`."""
    handle.seek(0)
    return sum(block.count(b"\n") for block in _blocks(BoundedStream(handle, position)))


def _blocks(stream: BinaryIO | BoundedStream) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        yield block


def _after_line_feed(handle: BinaryIO, position: int) -> int:
    """The byte after the first line feed from `position` on, or the end of the file."""
    handle.seek(position)
    for block in _blocks(handle):
        if (found := block.find(b"\n")) >= 0:
            return position + found + 1
        position += len(block)
    return handle.seek(0, os.SEEK_END)


def _line_before(handle: BinaryIO, position: int) -> bytes:
    """The line that ends before byte `position`, without its line feed."""
    found, end = [], position - 1
    while end > 0:
        start = max(0, end - _BLOCK)
        handle.seek(start)
        block = handle.read(end - start)
        found.append(block[block.rfind(b"\n") + 1 :])
        if b"\n" in block:
            return b"".join(reversed(found))
        end = start
    return b"".join(reversed(found)).removeprefix(_BOM)


def _is_blank(line: bytes, encoding: str) -> bool:
    text = line.decode(encoding, "surrogateescape")
    return not text or text.isspace()

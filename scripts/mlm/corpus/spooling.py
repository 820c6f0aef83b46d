"""Documents on disk in order, in batches that bound memory, before duplicates are known."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

# Arrow's own allocator keeps more of what was freed: a fifth of the memory of a corpus of 200 MB.
pa.set_memory_pool(pa.system_memory_pool())

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
_PIECE = 1 << 18
_SPOOLED = pa.schema([("text", pa.string()), ("group", pa.string())])

#: White space beyond ASCII: as numbers of three bytes of UTF-8, the last one 0 if there are two.
_SPACES = np.array(
    [
        int.from_bytes(character.encode("utf-8").ljust(3, b"\0"), "big")
        for character in "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
        "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    ]
)


class Spool:
    """Documents on their way to a file in batches, whose sizes `rows` has; `on_batch` gets each."""

    def __init__(self, path: Path, on_batch: Callable[[list[bytes]], None]):
        self.path, self.rows = path, []
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, _SPOOLED, options=options)
        self._on_batch = on_batch
        self._texts: list[bytes] = []
        self._groups: list[bytes | None] = []
        self._size = 0

    def add(self, document: bytes, group: str | None) -> None:
        """Append a document (its UTF-8 bytes, not empty) and its group's name."""
        if self._texts and self._size + len(document) > BATCH_BYTES:
            self._flush()
        self._texts.append(document)
        self._groups.append(group if group is None else group.encode("utf-8"))
        self._size += len(document)
        if len(self._texts) == BATCH_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            columns = [text_array(self._texts), text_array(self._groups)]
            self._writer.write_batch(pa.record_batch(columns, schema=_SPOOLED))
            self.rows.append(len(self._texts))
            self._on_batch(self._texts)
        self._texts, self._groups, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before the file is read."""
        self._flush()
        self._writer.close()


def text_array(texts: Sequence[bytes | None]) -> pa.Array:
    """`texts`, each the UTF-8 bytes of one or None, as an array of strings."""
    # From buffers: `pyarrow.array` of a list imports pandas.
    missing, valid = texts.count(None), None
    if missing == len(texts):
        return pa.nulls(len(texts), pa.string())
    if missing:
        there = np.array([text is not None for text in texts], bool)
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
        texts = [text or b"" for text in texts]
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=ends[1:])
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def mask_array(mask: np.ndarray) -> pa.Array:
    """The bool array `mask` as one of Arrow."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


class TextSize(NamedTuple):
    """UTF-8 bytes, code points, and words: runs of characters between white space."""

    bytes: int
    characters: int
    words: int


def in_pieces(texts: pa.Array) -> Iterator[pa.Array]:
    """`texts`, not empty, in slices of about what a processor's cache holds."""
    step = max(1, len(texts) * _PIECE // max(texts.nbytes, 1))
    return (texts[start : start + step] for start in range(0, len(texts), step))


def size_of(texts: pa.Array) -> TextSize:
    """The size of all `texts`, none of them empty or null; words are those of `str.split`."""
    _, ends, data = texts.buffers()
    ends = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    codes = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    in_word = (codes > ord(" ")) | (codes < 0x09) | _between(codes, 0x0E, 0x1B)
    places, sizes = _spaces_beyond_ascii(codes)
    for offset in range(3):
        in_word[places[offset < sizes] + offset] = False
    starts = ends[1:-1] - ends[0]
    words = int(np.count_nonzero(in_word[1:] > in_word[:-1])) + int(in_word[0])
    words += int(np.count_nonzero(in_word[starts] & in_word[starts - 1]))
    # Bytes that continue a character are the lowest as signed numbers.
    characters = int(np.count_nonzero(codes.view(np.int8) >= -0x40))
    return TextSize(len(codes), characters, words)


def _spaces_beyond_ascii(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places in the UTF-8 bytes `codes` at which a space of `_SPACES` begins, and its bytes."""
    places = np.flatnonzero((codes == 0xC2) | _between(codes, 0xE1, 0xE3))
    lead, second, third = (codes.take(places + i, mode="clip").astype(np.int32) for i in range(3))
    third[lead == 0xC2] = 0
    spaces = np.isin(lead << 16 | second << 8 | third, _SPACES)
    return places[spaces], np.where(lead[spaces] == 0xC2, 2, 3)


def _between(codes: np.ndarray, first: int, last: int) -> np.ndarray:
    """Which of `codes`, uint8, are from `first` to `last`; smaller ones become large ones."""
    return (codes - np.uint8(first)) <= np.uint8(last - first)

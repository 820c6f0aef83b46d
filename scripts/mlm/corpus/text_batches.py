"""Batches of texts as Arrow arrays, and their numbers of words, without a loop over characters.

Arrays are put together from buffers: `pyarrow.array` of a Python list imports pandas, which takes
longer than the job of a small part.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

#: White space beyond ASCII: as numbers of three bytes of UTF-8, the last one 0 if there are two.
_SPACES = np.array(
    [
        int.from_bytes(character.encode("utf-8").ljust(3, b"\0"), "big")
        for character in "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
        "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    ]
)


def text_array(texts: Sequence[bytes | None]) -> pa.Array:
    """`texts`, each the UTF-8 bytes of one or None, as an array of strings."""
    there = np.array([text is not None for text in texts], bool)
    if not there.any():
        return pa.nulls(len(texts), pa.string())
    ends = np.cumsum([0, *map(len, (text or b"" for text in texts))]).astype(np.int32)
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    data = b"".join(filter(None, texts))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def mask_array(mask: np.ndarray) -> pa.Array:
    """The bool array `mask` as one of Arrow."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def word_counts(texts: pa.Array) -> pa.Array:
    """How many words each of `texts` has, an array of strings, none of them empty or null: int32.

    Words are runs of characters between white space, as `str.split` finds them.
    """
    _, ends, data = texts.buffers()
    starts = np.frombuffer(ends, np.int32)[: len(texts)]
    codes = np.frombuffer(data, np.uint8)
    in_word = (codes > ord(" ")) | (codes < 0x09) | _between(codes, 0x0E, 0x1B)
    begins = in_word.copy()
    np.greater(in_word[1:], in_word[:-1], out=begins[1:])
    begins[starts] = in_word[starts]
    words = np.add.reduceat(begins.view(np.uint8), starts, dtype=np.int32)
    found = _spaces_beyond_ascii(codes)
    for number in np.unique(np.searchsorted(starts, found, side="right") - 1):
        words[number] = len(texts[number].as_py().split())
    return pa.Array.from_buffers(pa.int32(), len(words), [None, pa.py_buffer(words)])


def _spaces_beyond_ascii(codes: np.ndarray) -> np.ndarray:
    """The places in the UTF-8 bytes `codes` at which a space of `_SPACES` begins."""
    places = np.flatnonzero((codes == 0xC2) | _between(codes, 0xE1, 0xE3))
    lead, second, third = (codes.take(places + i, mode="clip").astype(np.int32) for i in range(3))
    third[lead == 0xC2] = 0
    return places[np.isin(lead << 16 | second << 8 | third, _SPACES)]


def _between(codes: np.ndarray, first: int, last: int) -> np.ndarray:
    """Which of `codes`, uint8, are from `first` to `last`; smaller ones become large ones."""
    return (codes - np.uint8(first)) <= np.uint8(last - first)

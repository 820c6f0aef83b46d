"""Batches of texts as Arrow arrays, and their numbers of words, without a loop over characters.

Arrays are put together from buffers: `pyarrow.array` of a Python list imports pandas, which takes
longer than the job of a small part.
"""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

#: Bytes that can begin white space beyond ASCII: U+0085, U+00A0, U+1680, U+2000 to U+205F, U+3000.
_MAYBE_SPACE = re.compile(b"[\xc2\xe1\xe2\xe3]")


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


def word_counts(texts: Sequence[bytes]) -> pa.Array:
    """How many words each of `texts` has, the UTF-8 bytes of one that is not empty: int32.

    Words are runs of characters between white space, as `str.split` finds them.
    """
    starts = np.cumsum([0, *map(len, texts[:-1])])
    codes = np.frombuffer(b"".join(texts), np.uint8)
    space = (codes == ord(" ")) | _between(codes, 0x09, 0x0D) | _between(codes, 0x1C, 0x1F)
    begins = ~space
    begins[1:] &= space[:-1]
    begins[starts] = ~space[starts]
    places = np.flatnonzero(begins)
    words = np.diff(np.searchsorted(places, starts), append=len(places)).astype(np.int32)
    for number, text in enumerate(texts):
        if not text.isascii() and _MAYBE_SPACE.search(text):
            words[number] = len(text.decode("utf-8").split())
    return pa.Array.from_buffers(pa.int32(), len(words), [None, pa.py_buffer(words)])


def _between(codes: np.ndarray, first: int, last: int) -> np.ndarray:
    """Which of `codes`, uint8, are from `first` to `last`; smaller ones become large ones."""
    return (codes - np.uint8(first)) <= np.uint8(last - first)

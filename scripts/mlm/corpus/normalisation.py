"""Unicode normalisation (Unicode Standard Annex 15) in time linear in the text.

Python's own sorts a run of combining marks by insertion, which is quadratic in the run's
length: a megabyte of marks takes a quarter of an hour. A long run is put into canonical order
here first, which changes no normal form and leaves nothing to insert.
"""

import functools
import itertools
import sys
import unicodedata

import numpy as np

#: Marks in a row beyond which they are sorted here. Text has one to four; a thousand take
#: Python a millisecond.
LONG_RUN = 1000


def normalised(text: str, form: str) -> str:
    """`text` in the normalisation form `form`: NFC, NFD, NFKC or NFKD."""
    if len(text) > LONG_RUN and not text.isascii():
        text = _with_sorted_runs(text)
    return unicodedata.normalize(form, text)


def _with_sorted_runs(text: str) -> str:
    """`text`, a canonical equivalent, with each run of more than LONG_RUN marks in order."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    edges = np.flatnonzero(np.diff(_is_mark()[codes], prepend=False, append=False))
    runs = edges.reshape(-1, 2)[np.diff(edges)[::2] > LONG_RUN]
    bounds = [0, *runs.ravel().tolist(), len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(bounds)]
    parts[1::2] = map(_in_canonical_order, parts[1::2])
    return "".join(parts)


def _in_canonical_order(marks: str) -> str:
    # One by one: taken apart together, they would be sorted by insertion.
    apart = "".join(unicodedata.normalize("NFD", mark) for mark in marks)
    return "".join(sorted(apart, key=unicodedata.combining))


@functools.cache
def _is_mark() -> np.ndarray:
    """For every code point, whether it has a combining class, bool [code points]."""
    codes = range(sys.maxunicode + 1)
    return np.fromiter(map(unicodedata.combining, map(chr, codes)), np.uint8, len(codes)) > 0

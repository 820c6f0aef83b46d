"""MinHash signatures of texts (Broder 1997) and the keys of their bands: locality-sensitive hashing
(Indyk and Motwani 1998)."""

from collections.abc import Sequence

import numpy as np

from mlm.corpus.words import ngram_hashes, ngrams, scrambled, word_hashes

#: Words of an n-gram; bands of a signature, and rows of a band.
WORDS, BANDS, ROWS = 5, 14, 8
HASHES = BANDS * ROWS
#: The key of a text without words, which is like no other.
NO_KEY = 0
#: n-grams that are hashed together.
_BLOCK = 1 << 15


def signatures_of(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the signatures of `texts`, uint8 [texts, HASHES], and their keys, uint64 [texts,
    BANDS]. A byte of each hash stands for it; different hashes share one time in 256 (b-bit minwise
    hashing, Li and König 2010)."""
    shingles, counts = shingle_hashes(*word_hashes(texts), WORDS)
    smallest = minhashes(shingles, counts, HASHES)
    keys = np.where(counts[:, None] > 0, band_keys(smallest, BANDS), np.uint64(NO_KEY))
    return ((smallest * np.uint32(0x9E3779B1)) >> np.uint32(24)).astype(np.uint8), keys


def shingle_hashes(
    words: np.ndarray, counts: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a 32-bit hash of each n-gram of `size` of the `words` of `word_hashes`, and the number
    of n-grams of each text. A shorter text is one n-gram of all its words."""
    hashes, whole = ngrams(words, counts, size)
    first = np.cumsum(counts) - counts
    for text in np.flatnonzero((counts > 0) & (counts < size)):
        start = first[text]
        hashes[start] = ngram_hashes(words[start : start + counts[text]], size)[0]
        whole[start] = True
    per_text = np.where(counts < size, np.minimum(counts, 1), counts - size + 1)
    return (hashes[whole] >> np.uint64(32)).astype(np.uint32), per_text


def minhashes(shingles: np.ndarray, counts: np.ndarray, hashes: int) -> np.ndarray:
    """Return the smallest value of each of `hashes` functions of the `shingles`, uint32 [texts,
    hashes]; the largest number for a text without any."""
    smallest = np.full((hashes, len(counts)), np.iinfo(np.uint32).max, np.uint32)
    drawn = scrambled(np.arange(1, 2 * hashes + 1, dtype=np.uint64)).astype(np.uint32)
    masks, factors = drawn[:hashes], drawn[hashes:] | np.uint32(1)
    texts = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[texts]
    ends = np.append(starts[1:], len(shingles))
    begin = 0
    while begin < len(texts):
        stop = max(int(np.searchsorted(ends, starts[begin] + _BLOCK, "right")), begin + 1)
        block = shingles[starts[begin] : ends[stop - 1]]
        offsets = starts[begin:stop] - starts[begin]
        values = np.empty_like(block)
        for function in range(hashes):
            np.bitwise_xor(block, masks[function], out=values)
            np.multiply(values, factors[function], out=values)
            smallest[function, texts[begin:stop]] = np.minimum.reduceat(values, offsets)
        begin = stop
    return np.ascontiguousarray(smallest.T)


def band_keys(smallest: np.ndarray, bands: int) -> np.ndarray:
    """Return a 64-bit key of each band of `smallest`: uint64 [texts, bands]."""
    rows = smallest.reshape(len(smallest), bands, smallest.shape[1] // bands).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, bands + 1, dtype=np.uint64), rows.shape[:2])
    for row in range(rows.shape[2]):
        keys = scrambled(keys * np.uint64(0x9E3779B97F4A7C15) + rows[:, :, row])
    return keys

"""MinHash signatures (Broder 1997) of documents, the sets of their n-grams of words, in NumPy."""

import numpy as np

from mlm.corpus.words import ngram_hashes, scrambled, whole_ngrams

#: n-grams that are hashed together.
_BLOCK = 1 << 15


def shingle_hashes(
    words: np.ndarray, counts: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a 32-bit hash of each n-gram of `size` of the `words` of `word_hashes`, and the number
    of n-grams of each text. A shorter text is one n-gram of all its words."""
    hashes, begins = ngram_hashes(words, size), whole_ngrams(counts, size)
    first = np.cumsum(counts) - counts
    for text in np.flatnonzero((counts > 0) & (counts < size)):
        own = words[first[text] : first[text] + counts[text]]
        hashes[first[text]] = ngram_hashes(own, size)[0]
        begins[first[text]] = True
    ngrams = np.where(counts < size, np.minimum(counts, 1), counts - size + 1)
    return (hashes[begins] >> np.uint64(32)).astype(np.uint32), ngrams


def minhashes(ngrams: np.ndarray, counts: np.ndarray, hashes: int) -> np.ndarray:
    """The smallest value of each of `hashes` functions of the `ngrams`, uint32 [texts, hashes]; the
    largest number for a text without any."""
    smallest = np.full((hashes, len(counts)), np.iinfo(np.uint32).max, np.uint32)
    drawn = scrambled(np.arange(1, 2 * hashes + 1, dtype=np.uint64)).astype(np.uint32)
    masks, factors = drawn[:hashes], drawn[hashes:] | np.uint32(1)
    texts = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[texts]
    ends = np.append(starts[1:], len(ngrams))
    begin = 0
    while begin < len(texts):
        stop = max(int(np.searchsorted(ends, starts[begin] + _BLOCK, "right")), begin + 1)
        block = ngrams[starts[begin] : ends[stop - 1]]
        places = starts[begin:stop] - starts[begin]
        values = np.empty_like(block)
        for function in range(hashes):
            np.bitwise_xor(block, masks[function], out=values)
            np.multiply(values, factors[function], out=values)
            smallest[function, texts[begin:stop]] = np.minimum.reduceat(values, places)
        begin = stop
    return np.ascontiguousarray(smallest.T)


def band_keys(smallest: np.ndarray, bands: int) -> np.ndarray:
    """A 64-bit key of each band of `smallest` (corpus.filters: bands, rows): uint64 [texts, bands].
    Locality-sensitive hashing (Indyk and Motwani 1998)."""
    rows = smallest.reshape(len(smallest), bands, smallest.shape[1] // bands).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, bands + 1, dtype=np.uint64), rows.shape[:2])
    for row in range(rows.shape[2]):
        keys = scrambled(keys * np.uint64(0x9E3779B97F4A7C15) + rows[:, :, row])
    return keys


def low_bytes(smallest: np.ndarray) -> np.ndarray:
    """A byte of each hash, by which signatures are compared; different hashes share it one time in
    256 (b-bit minwise hashing, Li and König 2010)."""
    return ((smallest * np.uint32(0x9E3779B1)) >> np.uint32(24)).astype(np.uint8)

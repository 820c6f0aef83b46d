"""MinHash signatures (Broder 1997) of documents, the sets of their n-grams of words, in NumPy."""

import functools
import sys
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

#: Scripts that put no spaces between words, as ranges of code points: Thai and Lao, Myanmar,
#: Khmer, the Japanese syllables, and Chinese characters.
UNSPACED = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x31F0, 0x31FF)),
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
_BETWEEN, _IN_A_WORD, _A_WORD = 0, 1, 2
#: Characters that are looked at together: about what a processor's cache holds.
_PIECE = 1 << 17
#: n-grams that are hashed together.
_BLOCK = 1 << 15
_POWERS = np.cumprod(np.full(4096, 0x9E3779B97F4A7C15, np.uint64))
_END = "\0"


def word_hashes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """A 64-bit hash of each word of `texts`, in turn, and how many each has. Text is in the form
    NFKC with cases folded. A word is a run of letters, marks and digits (general categories L, M,
    N); in `UNSPACED` scripts each is a word by itself."""
    counts = np.zeros(len(texts), np.int64)
    hashes = []
    for numbers, pieces in _pieces(texts):
        found, words = _hashed(pieces)
        hashes.append(found)
        np.add.at(counts, numbers, words)
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64), counts


def ngram_hashes(words: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A 32-bit hash of each n-gram of `size` of the `words` of `word_hashes`, and how many each
    text has. A shorter text is one n-gram of all its words."""
    factors = np.cumprod(np.full(size, 0xA24BAED4963EE407, np.uint64))
    following = np.concatenate([words, np.zeros(size - 1, np.uint64)])
    sums = np.zeros(len(words), np.uint64)
    for place, factor in enumerate(factors):
        sums += following[place : place + len(words)] * factor
    first = np.cumsum(counts) - counts
    for text in np.flatnonzero((counts > 0) & (counts < size)):
        own = words[first[text] : first[text] + counts[text]]
        sums[first[text]] = (own * factors[: len(own)]).sum()
    ngrams = np.where(counts < size, np.minimum(counts, 1), counts - size + 1)
    places = np.arange(ngrams.sum()) + np.repeat(first - (np.cumsum(ngrams) - ngrams), ngrams)
    return (scrambled(sums[places]) >> np.uint64(32)).astype(np.uint32), ngrams


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


def scrambled(values: np.ndarray) -> np.ndarray:
    """`values`, uint64, with all bits stirred into each other (the end of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(factor)
    return values ^ (values >> np.uint64(33))


def _pieces(texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Texts with their numbers, as many as make up a piece; a longer one is cut."""
    numbers, pieces, size = [], [], 0
    for number, text in enumerate(texts):
        start = 0
        while start < len(text):
            stop = len(text)
            if stop - start > _PIECE:
                # At a space, where there is one.
                stop = text.rfind(" ", start, start + _PIECE) + 1 or start + _PIECE
            if pieces and size + stop - start > _PIECE:
                yield numbers, pieces
                numbers, pieces, size = [], [], 0
            numbers.append(number)
            pieces.append(text[start:stop])
            size += stop - start
            start = stop
    if pieces:
        yield numbers, pieces


def _hashed(pieces: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each word of `pieces`, and how many each has."""
    text = _END.join(pieces) + _END
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", text).casefold()
        if not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[codes]
    before = np.concatenate([[np.uint8(_BETWEEN)], kinds[:-1]])
    begins = (kinds == _A_WORD) | ((kinds == _IN_A_WORD) & (before != _IN_A_WORD))
    counts = np.diff(np.searchsorted(np.flatnonzero(begins), np.flatnonzero(codes == 0)), prepend=0)
    inside = kinds != _BETWEEN
    starts = np.flatnonzero(begins[inside])
    if not len(starts):
        return np.empty(0, np.uint64), counts
    values = codes[inside].astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    lengths = np.diff(np.append(starts, len(values)))
    places = np.arange(len(values)) - np.repeat(starts, lengths)
    values = (values ^ (values >> np.uint64(32))) * _POWERS[places % len(_POWERS)]
    return scrambled(np.add.reduceat(values, starts)), counts


@functools.cache
def _kinds() -> np.ndarray:
    """For every code point, what it is to a word: uint8 [code points]."""
    codes = range(sys.maxunicode + 1)
    kinds = np.array([unicodedata.category(chr(code))[0] in "LMN" for code in codes], np.uint8)
    for first, last in UNSPACED:
        kinds[first : last + 1] *= _A_WORD
    return kinds

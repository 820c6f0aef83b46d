"""Words of texts and their n-grams as hashes, for decontamination and near-duplicates; MinHash
signatures of texts (Broder 1997) and the keys of their bands: locality-sensitive hashing (Indyk and
Motwani 1998)."""

import functools
import sys
import unicodedata
from collections.abc import Sequence

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
_BASE = 0x9E3779B97F4A7C15
_END = "\0"
#: Words of an n-gram; bands of a signature, and rows of a band.
WORDS, BANDS, ROWS = 5, 14, 8
HASHES = BANDS * ROWS
#: Share of the hashes of signatures that agree in near-duplicates.
SIMILAR = 0.75
#: The key of a text with fewer words, which is like no other.
NO_KEY = 0
#: n-grams that are hashed together.
_BLOCK = 1 << 15


def word_hashes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit hash of each word of `texts`, in turn, and the number of words of each. A
    word is a run of letters, marks and digits (general categories L, M, N) in the form NFKC with
    cases folded; in `UNSPACED` scripts each is a word by itself."""
    size = sum(map(len, texts))
    if size > _PIECE and len(texts) > 1:
        halves = texts[: len(texts) // 2], texts[len(texts) // 2 :]
        hashes, counts = zip(*map(word_hashes, halves), strict=True)
        return np.concatenate(hashes), np.concatenate(counts)
    if size > _PIECE:
        # At a space, where there is one.
        (text,) = texts
        middle = text.rfind(" ", 0, size // 2) + 1 or size // 2
        hashes, counts = word_hashes([text[:middle], text[middle:]])
        return hashes, counts.sum(keepdims=True)
    codes, starts, ends = _bounds("".join(f"{_folded(text)}{_END}" for text in texts))
    words = np.searchsorted(starts, np.flatnonzero(codes == 0))
    return _hashes(codes, starts, ends), np.diff(words, prepend=0)


def words_of(text: str) -> list[str]:
    """Return the words of `text` that `word_hashes` hashes, as text."""
    text = _folded(text)
    _, starts, ends = _bounds(text + _END)
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def inside_word(text: str, index: int) -> bool:
    """Whether the characters before and at `index` are of one word."""
    neighbours = code_points(text[max(index - 1, 0) : index + 1])
    return 0 < index < len(text) and bool((_kinds().take(neighbours) == _IN_A_WORD).all())


def ngrams(words: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit hash of the `size` words from each of `words` on, and whether they are in one
    text, by the `counts` of words of each text: uint64 and bool, both [words]."""
    remaining = np.repeat(np.cumsum(counts), counts) - np.arange(len(words))
    following = np.concatenate([words, np.zeros(size - 1, np.uint64)])
    sums = np.zeros(len(words), np.uint64)
    for start, factor in enumerate(_factors(size)):
        sums += following[start : start + len(words)] * factor
    return scrambled(sums), remaining >= size


class NgramIndex:
    """A set of hashes of n-grams, each with the lowest of its `labels`."""

    def __init__(self, hashes: np.ndarray, labels: np.ndarray | None = None):
        if labels is None:
            self.hashes = np.unique(hashes)
        else:
            # Of equal hashes, the first.
            order = np.argsort(labels, kind="stable")
            self.hashes, first = np.unique(hashes[order], return_index=True)
            self.labels = labels[order][first]
        # Most hashes are not in the set, which their first bits tell.
        self._first_bits = np.zeros(1 << 24, bool)
        self._first_bits[self.hashes >> np.uint64(40)] = True

    def find(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of those of `hashes` that are in the set, and their indices in it."""
        likely = np.flatnonzero(self._first_bits.take((hashes >> np.uint64(40)).astype(np.int64)))
        indices = np.searchsorted(self.hashes, hashes[likely])
        equal = self.hashes.take(indices, mode="clip") == hashes[likely] if len(likely) else likely
        equal = np.flatnonzero(equal)
        return likely[equal], indices[equal]


def scrambled(values: np.ndarray) -> np.ndarray:
    """Return `values`, uint64, with all bits mixed (the end of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(factor)
    return values ^ (values >> np.uint64(33))


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).casefold()
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def code_points(text: str) -> np.ndarray:
    """Return the code points of `text`."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _bounds(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the code points of `text`, and the indices at which its words start and end."""
    codes = code_points(text)
    kinds = _kinds().take(codes)
    inside, alone = kinds == _IN_A_WORD, kinds == _A_WORD
    edge = np.zeros(1, bool)
    starts = alone | (inside & ~np.concatenate([edge, inside[:-1]]))
    ends = alone | (inside & ~np.concatenate([inside[1:], edge]))
    return codes, np.flatnonzero(starts), np.flatnonzero(ends) + 1


def _hashes(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return a polynomial of the characters of each word, by differences of running sums."""
    powers, inverses = _powers(1 << max(len(codes) - 1, 0).bit_length())
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(_values().take(codes) * powers[: len(codes)], out=sums[1:])
    return scrambled((sums[ends] - sums[starts]) * inverses[starts])


@functools.cache
def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the powers of `_BASE` from 1 on, and of its inverse from 0 on, modulo 2^64."""
    inverse = np.full(count, pow(_BASE, -1, 1 << 64), np.uint64)
    inverse[0] = 1
    return _factors(count, _BASE), np.cumprod(inverse)


@functools.cache
def _factors(size: int, base: int = 0xA24BAED4963EE407) -> np.ndarray:
    return np.cumprod(np.full(size, base, np.uint64))


@functools.cache
def _values() -> np.ndarray:
    """Return a number for every code point: uint64 [code points]."""
    values = np.arange(sys.maxunicode + 1, dtype=np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    return values ^ (values >> np.uint64(32))


@functools.cache
def _kinds() -> np.ndarray:
    """Return for every code point its part in a word: uint8 [code points]."""
    codes = range(sys.maxunicode + 1)
    kinds = np.array([unicodedata.category(chr(code))[0] in "LMN" for code in codes], np.uint8)
    for first, last in UNSPACED:
        kinds[first : last + 1] *= _A_WORD
    return kinds


def signatures_of(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the signatures of `texts`, uint8 [texts, HASHES], and the 64-bit keys of their bands,
    uint64 [texts, BANDS]; NO_KEY for a text of fewer than WORDS words. A byte of each hash stands
    for it; different hashes share one time in 256 (b-bit minwise hashing, Li and König 2010)."""
    words, counts = word_hashes(texts)
    hashes, whole = ngrams(words, counts, WORDS)
    counts = np.maximum(counts - WORDS + 1, 0)
    smallest = _minhashes((hashes[whole] >> np.uint64(32)).astype(np.uint32), counts)
    rows = smallest.reshape(-1, BANDS, ROWS).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, BANDS + 1, dtype=np.uint64), rows.shape[:2])
    for row in range(ROWS):
        keys = scrambled(keys * np.uint64(_BASE) + rows[:, :, row])
    keys = np.where(counts[:, None] > 0, keys, np.uint64(NO_KEY))
    return ((smallest * np.uint32(0x9E3779B1)) >> np.uint32(24)).astype(np.uint8), keys


def _minhashes(shingles: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the smallest value of each of HASHES functions of the `shingles`, uint32 [texts,
    HASHES]; the largest number for a text without any."""
    smallest = np.full((HASHES, len(counts)), np.iinfo(np.uint32).max, np.uint32)
    drawn = scrambled(np.arange(1, 2 * HASHES + 1, dtype=np.uint64)).astype(np.uint32)
    masks, factors = drawn[:HASHES], drawn[HASHES:] | np.uint32(1)
    texts = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[texts]
    ends = np.append(starts[1:], len(shingles))
    begin = 0
    while begin < len(texts):
        stop = max(int(np.searchsorted(ends, starts[begin] + _BLOCK, "right")), begin + 1)
        block = shingles[starts[begin] : ends[stop - 1]]
        offsets = starts[begin:stop] - starts[begin]
        values = np.empty_like(block)
        for function in range(HASHES):
            np.bitwise_xor(block, masks[function], out=values)
            np.multiply(values, factors[function], out=values)
            smallest[function, texts[begin:stop]] = np.minimum.reduceat(values, offsets)
        begin = stop
    return np.ascontiguousarray(smallest.T)

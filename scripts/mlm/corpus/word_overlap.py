"""Words of validation and test in runs of 13 that train has too.

13-grams of words in lower case, as Brown et al., 2020, arXiv 2005.14165, appendix C, compare
them. Words are runs of letters and digits. The 13-grams of the held-out splits are held in memory
as hashes, and train streams past them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.corpus.artefacts import WordOverlap, WrittenFile

#: Words in a row that count as shared.
RUN_WORDS = 13
#: Words in a row by which places are found that may have a run, and the distance of the places.
_PROBE, _STRIDE = 6, 8
#: Words of a held-out split that are looked for, in documents at equal distances.
MOST_WORDS = 1_000_000
#: Documents, and code points of them, that are hashed together: arrays in a processor's cache.
_TOGETHER, _PIECE = 1024, 1 << 17
# An odd number modulo 2^64 has an inverse, so that the powers of a piece serve all its words.
_BASE = 0x2545F4914F6CDD1D
_INVERSE = pow(_BASE, -1, 1 << 64)


class HeldOutRuns:
    """The 13-grams of held-out splits, and which of them train has too.

    `files` are the Parquet files of each split, in order, beside what is known of them.
    """

    def __init__(self, files: Mapping[str, Sequence[tuple[Path, WrittenFile]]]):
        self._files = files
        everything, probes = [np.empty(0, np.uint64)], []
        for split in files:
            for words, sizes in self._words(split):
                everything.append(_n_grams(words, _inside(np.arange(len(words)), sizes), RUN_WORDS))
                probes.append(_n_grams(words, np.arange(len(words) - _PROBE + 1), _PROBE))
        # Much faster than `np.unique`.
        hashes = np.sort(np.concatenate(everything))
        self._hashes = hashes[np.diff(hashes, prepend=hashes[:1] + np.uint64(1)) != 0]
        self._shared = np.zeros(len(self._hashes), bool)
        # Of most places in train, one look into a table says that no run of theirs is here.
        self._shift = np.uint64(64 - min(25, max(10, len(self._hashes).bit_length() + 4)))
        self._probes = np.zeros(1 << (64 - int(self._shift)), bool)
        for hashes in probes:
            self._probes[_mixed(hashes) >> self._shift] = True

    def _words(self, split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `_word_hashes`, of the documents that are looked for, batch by batch."""
        files = self._files[split]
        words, documents = sum(f.words for _, f in files), sum(f.file.documents for _, f in files)
        chosen = documents if words <= MOST_WORDS else max(1, documents * MOST_WORDS // words)
        number = 0
        for path, _ in files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_TOGETHER, columns=["text"]):
                    numbers = np.arange(number, number + len(batch), dtype=np.int64)
                    number += len(batch)
                    wanted = (numbers + 1) * chosen // documents > numbers * chosen // documents
                    texts = batch.column("text").take(pa.array(np.flatnonzero(wanted)))
                    if len(texts):
                        yield _word_hashes(texts)

    def look_into(self, texts: pa.Array) -> None:
        """Note which 13-grams of held-out splits `texts`, documents of train, have."""
        for start in range(0, len(texts), _TOGETHER):
            words, sizes = _word_hashes(texts[start : start + _TOGETHER])
            # Of 13 words in a row, one in _STRIDE begins a probe within them.
            places = np.arange(0, len(words) - _PROBE + 1, _STRIDE)
            probes = _mixed(_n_grams(words, places, _PROBE))
            found = places[self._probes[probes >> self._shift]]
            near = (found[:, None] - np.arange(_STRIDE)).ravel()
            self.add(_n_grams(words, _inside(near[near >= 0], sizes), RUN_WORDS))

    def looking_into(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`batches` as they are, while another thread looks into the texts of each."""
        with ThreadPoolExecutor(1) as pool:
            before = None
            for batch in batches:
                if before:
                    before.result()
                before = pool.submit(self.look_into, batch.column("text"))
                yield batch
            if before:
                before.result()

    def add(self, hashes: np.ndarray) -> None:
        """Note `hashes`, 13-grams of train."""
        if len(self._hashes):
            places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
            self._shared[places[self._hashes[places] == hashes]] = True

    @property
    def shared(self) -> np.ndarray:
        """The hashes of the 13-grams that train has too, for `add` elsewhere."""
        return self._hashes[self._shared]

    def overlap(self, split: str) -> WordOverlap:
        """How many words of `split` are in runs that train has too, and how many were compared."""
        words = shared = documents = 0
        for hashes, sizes in self._words(split):
            begins = _inside(np.arange(len(hashes)), sizes)
            runs = np.searchsorted(self._hashes, _n_grams(hashes, begins, RUN_WORDS))
            known = begins[self._shared[runs]]
            change = np.zeros(sizes.sum() + 1, np.int64)
            np.add.at(change, known, 1)
            np.add.at(change, known + RUN_WORDS, -1)
            covered = np.cumsum(change[:-1]) > 0
            words += len(covered)
            shared += int(covered.sum())
            owner = np.repeat(np.arange(len(sizes)), sizes)
            documents += len(np.unique(owner[covered]))
        return WordOverlap(words, shared, documents)


def _inside(places: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Those of `places` at which 13 words of one document begin; documents have `sizes` words."""
    ends = np.cumsum(sizes)
    document = np.searchsorted(ends, places, side="right")
    return places[places + RUN_WORDS <= ends[document]]


def _n_grams(words: np.ndarray, places: np.ndarray, n: int) -> np.ndarray:
    """The hash of `n` of `words` from each of `places` on."""
    hashes = words[places]
    for offset in range(1, n):
        hashes *= np.uint64(_BASE)
        hashes += words[places + offset]
    return hashes


def _word_hashes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each word of `texts` in their order, and the number of words by document."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    if data.max(initial=0) < 0x80:
        codes, starts = data, offsets[:-1] - offsets[0]
    else:
        codes = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), np.uint32)
        lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
    found, places = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    highest = int(codes.max(initial=0))
    letters = _letters(next(size for size in (0x80, 0x10000, 0x110000) if highest < size))
    powers, inverses = _powers()
    start = 0
    while start < len(codes):
        piece = letters[codes[start : start + _PIECE]]
        in_word = piece != 0
        # A piece ends where a word or a document does.
        stop = len(piece)
        if start + stop < len(codes):
            ends = np.flatnonzero(~in_word[-1000:])
            stop -= len(in_word[-1000:]) - 1 - int(ends[-1]) if len(ends) else 0
            piece, in_word = piece[:stop], in_word[:stop]
        begins = in_word.copy()
        begins[1:] &= ~in_word[:-1]
        first, last = np.searchsorted(starts, [start, start + stop])
        of_documents = starts[first:last] - start
        begins[of_documents] = in_word[of_documents]
        at = np.flatnonzero(begins)
        if len(at):
            piece *= powers[:stop]
            found.append(_mixed(np.add.reduceat(piece, at) * inverses[at]))
            places.append(at + start)
        start += stop
    at = np.concatenate(places)
    sizes = np.diff(np.append(np.searchsorted(at, starts), len(at)))
    return np.concatenate(found), sizes


def _mixed(values: np.ndarray) -> np.ndarray:
    values = values * np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(32)
    values *= np.uint64(0xD6E8FEB86659FD93)
    return values ^ (values >> np.uint64(32))


@cache
def _letters(size: int) -> np.ndarray:
    """For each of `size` code points a number, that of its lower case; 0: no letter or digit."""
    lower = [
        (ord(low) if len(low := c.lower()) == 1 else ord(c)) + 1 if c.isalnum() else 0
        for c in map(chr, range(size))
    ]
    values = np.array(lower, np.uint64)
    return np.where(values > 0, _mixed(values), np.uint64(0))


@cache
def _powers() -> tuple[np.ndarray, np.ndarray]:
    """Powers of the base of hashes and of its inverse, for each place in a piece."""
    found = []
    for base in (_BASE, _INVERSE):
        factors = np.full(_PIECE, base, np.uint64)
        factors[0] = 1
        found.append(np.multiply.accumulate(factors))
    return found[0], found[1]

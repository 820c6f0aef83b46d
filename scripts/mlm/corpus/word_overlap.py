"""Words of validation and test in runs of 13 that train has too, as in Brown et al., 2020, arXiv
2005.14165, appendix C. Of train, five words in nine are hashed: if the held-out text has these five
too, the 13-grams around them are compared."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.corpus.artefacts import WordOverlap, WrittenFile
from mlm.corpus.spooling import in_pieces, mask_array, text_array
from mlm.foundations.artefacts import check_outputs

#: Words in a row that count as shared.
RUN_WORDS = 13
#: Words of a probe, and their distance: every run has a whole probe within it.
_PROBE = 5
_STRIDE = RUN_WORDS - _PROBE + 1
#: Words of a held-out split that are looked for, in documents at equal distances.
MOST_WORDS = 1_000_000
#: Hashes of train that are sorted together at least.
_WAITING = 1 << 17
_BASE = np.uint64(0x2545F4914F6CDD1D)
_LOW, _HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)


class HeldOutRuns:
    """Which 13-grams of train held-out splits may have, given the records of the files of each."""

    def __init__(self, splits: Iterable[Sequence[Path]]):
        self._probes, self._runs = _Bits(), _Bits()
        for records in splits:
            for words in _held_out_words(records):
                probes = np.arange(len(words.starts) - _PROBE + 1)
                self._probes.add(words.n_grams(probes, _PROBE))
                self._runs.add(words.n_grams(np.flatnonzero(words.runs()), RUN_WORDS))
        self._found, self._waiting = np.empty(0, np.uint64), [np.empty(0, np.uint64)]
        pa.default_memory_pool().release_unused()

    def found(self) -> np.ndarray:
        """The hashes, in order: all that are there, and about one in a hundred others."""
        self._compact()
        return self._found

    def _compact(self) -> None:
        self._found = np.unique(np.concatenate([self._found, *self._waiting]))
        self._waiting = []

    def looking_into(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`batches` of train as they are, after a look into the texts of each."""
        for batch in batches:
            for texts in in_pieces(batch.column("text")):
                self._waiting.append(self._in_train(_Words(texts, some=True)))
            if sum(map(len, self._waiting)) > len(self._found) + _WAITING:
                self._compact()
            yield batch

    def _in_train(self, words: "_Words") -> np.ndarray:
        probes = np.arange(0, len(words.starts) - _PROBE + 1, _STRIDE)
        words.hash((probes[:, None] + np.arange(_PROBE)).ravel())
        probes = probes[self._probes.have(words.n_grams(probes, _PROBE))]
        begins, near = np.zeros((2, len(words.starts)), bool)
        for offset in range(_STRIDE):
            begins[np.maximum(probes - offset, 0)] = True
        runs = np.flatnonzero(begins & words.runs())
        for offset in range(RUN_WORDS):
            near[runs + offset] = True
        words.hash(np.flatnonzero(near))
        hashes = words.n_grams(runs, RUN_WORDS)
        return hashes[self._runs.have(hashes)]


class _Bits:
    """A set of hashes that may seem to have others, too (Bloom 1970), with two bits for each."""

    def __init__(self):
        self._table = np.zeros(1 << 19, np.uint64)

    def add(self, hashes: np.ndarray) -> None:
        places, bits = self._bits(hashes)
        # Of several for one place, one at a time is noted.
        while len(places):
            self._table[places] |= bits
            missing = (self._table[places] & bits) != bits
            places, bits = places[missing], bits[missing]

    def have(self, hashes: np.ndarray) -> np.ndarray:
        places, bits = self._bits(hashes)
        return (self._table[places] & bits) == bits

    @staticmethod
    def _bits(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mixed, one, six = _scrambled(hashes), np.uint64(1), np.uint64(63)
        bits = (one << ((mixed >> np.uint64(39)) & six)) | (one << ((mixed >> np.uint64(33)) & six))
        return (mixed >> np.uint64(45)).astype(np.int64), bits


def overlap_with(found: np.ndarray, records: Sequence[Path]) -> WordOverlap:
    """How many words of a held-out split are in runs whose hashes are in `found`, sorted."""
    number = shared = documents = 0
    for words in _held_out_words(records):
        begins = np.flatnonzero(words.runs())
        hashes = words.n_grams(begins, RUN_WORDS)
        places = np.searchsorted(found, hashes)
        begins = begins[found.take(places, mode="clip") == hashes] if len(found) else begins[:0]
        covered = np.unique(begins[:, None] + np.arange(RUN_WORDS))
        number += len(words.starts)
        shared += len(covered)
        documents += len(np.unique(words.documents(covered)))
    return WordOverlap(number, shared, documents)


def _held_out_words(records: Sequence[Path]) -> Iterator["_Words"]:
    """The words of the documents that are looked for, batch by batch."""
    for record in records:
        check_outputs(record, [record.with_suffix(".parquet")])
    files = list(map(WrittenFile.read, records))
    words, documents = sum(f.words for f in files), sum(f.file.documents for f in files)
    chosen = documents if words <= MOST_WORDS else max(1, documents * MOST_WORDS // words)
    number = 0
    for record in records:
        with pq.ParquetFile(record.with_suffix(".parquet")) as file:
            for batch in file.iter_batches(1024, columns=["text"]):
                numbers = np.arange(number, number + len(batch), dtype=np.int64)
                number += len(batch)
                wanted = (numbers + 1) * chosen // documents > numbers * chosen // documents
                yield _Words(batch.column("text").filter(mask_array(wanted)))


class _Words:
    """Where the words of documents `texts` start; without `some`, all are hashed at once."""

    def __init__(self, texts: pa.Array, some: bool = False):
        ends = pa.py_buffer(np.array([0, len(texts)], np.int32))
        ends = pa.Array.from_buffers(pa.int32(), 2, [None, ends])
        together = pc.binary_join(pa.ListArray.from_arrays(ends, texts), text_array([b"\0"])[0])
        text = _folded(together[0].as_buffer().to_pybytes())
        letters = text > 0
        self.starts = np.flatnonzero(letters[1:] > letters[:-1])
        # The eight bytes from each place on, after the separator before the text.
        self._eight = np.ndarray(len(text) - 8, "<u8", text, offset=1, strides=1)
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
        self._document_ends = offsets[1:] - offsets[0] + np.arange(1, len(texts) + 1)
        self._hashes = np.empty(len(self.starts), np.uint64)
        if not some:
            self.hash(np.arange(len(self.starts)))

    def hash(self, words: np.ndarray) -> None:
        """Hash `words`, as they are numbered from 0."""
        at = self.starts[words]
        value, whole = _until_separator(self._eight[at])
        hashes = _scrambled(value)
        longer = np.flatnonzero(whole)
        at = at[longer]
        while len(longer):
            at = at + 8
            value, whole = _until_separator(self._eight[at])
            hashes[longer] = _scrambled(hashes[longer] ^ value)
            longer, at = longer[whole], at[whole]
        self._hashes[words] = hashes

    def n_grams(self, begins: np.ndarray, n: int) -> np.ndarray:
        """The hash of the `n` words from each of `begins` on."""
        hashes = self._hashes[begins]
        for offset in range(1, n):
            hashes *= _BASE
            hashes += self._hashes[begins + offset]
        return hashes

    def documents(self, words: np.ndarray) -> np.ndarray:
        """The number of the document of each of `words`."""
        return np.searchsorted(self._document_ends, self.starts[words], "right")

    def runs(self) -> np.ndarray:
        """Whether a document has 13 words from each of its words on."""
        whole = np.ones(len(self.starts), bool)
        ends = np.append(np.searchsorted(self.starts, self._document_ends), len(whole))
        last = (ends[:, None] - np.arange(1, RUN_WORDS)).ravel()
        whole[last[last >= 0]] = False
        return whole


def _folded(text: bytes) -> np.ndarray:
    """UTF-8 bytes in lower case, 0 for what is no letter or digit, and more zeros around them."""
    ascii = _lower(0x80).astype(np.uint8).tobytes() + bytes(range(0x80, 0x100))
    folded = np.frombuffer(bytearray(1) + text.translate(ascii) + bytes(9), np.uint8)
    at = np.flatnonzero(folded >= 0x80)
    if len(at):
        codes = np.frombuffer(folded[at].tobytes().decode().encode("utf-32-le"), np.uint32)
        lower = _lower(0x10000 if codes.max() < 0x10000 else 0x110000)[codes]
        encoded = np.where(lower > 0, lower, codes).tobytes().decode("utf-32-le").encode()
        sizes = 2 + (codes >= 0x800) + (codes >= 0x10000)
        folded[at] = np.frombuffer(encoded, np.uint8) * np.repeat(lower > 0, sizes)
    return folded


@cache
def _lower(size: int) -> np.ndarray:
    """For each of `size` code points its lower case, if as long in UTF-8; 0: no letter or digit."""
    lower = np.zeros(size, np.uint32)
    for code, character in enumerate(map(chr, range(size))):
        if character.isalnum():
            low = character.lower()
            same = len(low) == 1 and len(low.encode()) == len(character.encode())
            lower[code] = ord(low) if same else code
    return lower


def _until_separator(eight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight bytes each, without what follows their first separator, and which have none."""
    # Mycroft's test for a zero byte.
    none = ~(((eight & _LOW) + _LOW) | eight) & _HIGH
    first = none & (~none + np.uint64(1))
    return eight & ((first >> np.uint64(7)) - np.uint64(1)), none == 0


def _scrambled(values: np.ndarray) -> np.ndarray:
    values = values * np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(32)
    return values * np.uint64(0xD6E8FEB86659FD93)

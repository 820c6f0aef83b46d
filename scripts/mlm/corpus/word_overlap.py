"""Words of validation and test in runs of 8 words that also occur in train.

Decontamination leaves out what shares 13 words (Brown et al., 2020, arXiv 2005.14165, appendix C):
a share of runs of 13 would say what was filtered, not what is left.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mlm.corpus.artefacts import WordOverlap, WrittenFile
from mlm.corpus.spooling import numpy_array
from mlm.corpus.words import NgramIndex, ngrams, word_hashes
from mlm.foundations.artefacts import check_outputs

#: Words in a row that count as shared.
RUN_WORDS = 8
#: Words of a held-out split that are looked for, in documents at equal distances.
MOST_WORDS = 1_000_000


class HeldOutRuns:
    """The runs of words of held-out splits, given the records of the files of each, and which of
    them train has."""

    def __init__(self, splits: Iterable[Sequence[Path]]):
        runs = [_runs(texts)[0] for records in splits for texts in _held_out_batches(records)]
        self._index = NgramIndex(np.concatenate([np.empty(0, np.uint64), *runs]))
        self._shared = np.zeros(len(self._index.hashes), bool)

    def shared(self) -> np.ndarray:
        """Return the hashes of the runs that train has, sorted."""
        return self._index.hashes[self._shared]

    def look_into(self, texts: Sequence[str]) -> None:
        """Look for the runs in `texts` of train."""
        self._shared[self._index.find(_runs(texts)[0])[1]] = True


def overlap_with(shared: np.ndarray, records: Sequence[Path]) -> WordOverlap:
    """Return the overlap of a held-out split with train, whose runs have the hashes `shared`."""
    index, overlaps = NgramIndex(shared), [np.zeros(5, np.int64)]
    for texts in _held_out_batches(records):
        hashes, begins, counts = _runs(texts)
        covered = begins[index.find(hashes)[0]][:, None] + np.arange(RUN_WORDS)
        covered = np.unique(covered)
        documents = np.unique(np.searchsorted(np.cumsum(counts), covered, "right"))
        short = counts < RUN_WORDS
        measures = counts[~short].sum(), len(covered), len(documents), counts[short].sum()
        overlaps.append(np.array([*measures, short.sum()]))
    return WordOverlap(RUN_WORDS, *sum(overlaps).tolist())


def _runs(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the hashes of the runs of `texts`, the words at which they begin, and the number of
    words of each text."""
    words, counts = word_hashes(texts)
    hashes, whole = ngrams(words, counts, RUN_WORDS)
    return hashes[whole], np.flatnonzero(whole), counts


def _held_out_batches(records: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the documents that are looked for, batch by batch."""
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
                yield batch.column("text").filter(numpy_array(wanted)).to_pylist()

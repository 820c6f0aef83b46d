"""Words of validation and test in runs of 8 that train has too.

Decontamination leaves out what shares 13 words (Brown et al., 2020, arXiv 2005.14165, appendix C):
a share of runs of 13 would say what was filtered, not what is left.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mlm.corpus.artefacts import WordOverlap, WrittenFile
from mlm.corpus.spooling import in_pieces, mask_array
from mlm.corpus.words import NgramIndex, ngram_hashes, whole_ngrams, word_hashes
from mlm.foundations.artefacts import check_outputs

#: Words in a row that count as shared.
RUN_WORDS = 8
#: Words of a held-out split that are looked for, in documents at equal distances.
MOST_WORDS = 1_000_000


class HeldOutRuns:
    """The runs of words of held-out splits, given the records of the files of each, and which of
    them train has."""

    def __init__(self, splits: Iterable[Sequence[Path]]):
        batches = (batch for records in splits for batch in _held_out_batches(records))
        runs = [_runs(texts)[1] for texts in batches]
        self._index = NgramIndex(np.concatenate([np.empty(0, np.uint64), *runs]))
        self._shared = np.zeros(len(self._index.hashes), bool)

    def shared(self) -> np.ndarray:
        """Return the hashes of the runs that train has, sorted."""
        return self._index.hashes[self._shared]

    def looking_into(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield `batches` of train as they are, after a look into the texts of each."""
        for batch in batches:
            for texts in in_pieces(batch.column("text")):
                _, hashes, _ = _runs(texts)
                self._shared[self._index.find(hashes)[1]] = True
            yield batch


def overlap_with(shared: np.ndarray, records: Sequence[Path]) -> WordOverlap:
    """Return the overlap of a held-out split with train, whose runs have the hashes `shared`."""
    index = NgramIndex(shared)
    words = words_shared = documents_shared = unmeasured_words = unmeasured_documents = 0
    for texts in _held_out_batches(records):
        begins, hashes, counts = _runs(texts)
        covered = begins[index.find(hashes)[0]][:, None] + np.arange(RUN_WORDS)
        covered = np.unique(covered)
        short = counts < RUN_WORDS
        words += int(counts[~short].sum())
        words_shared += len(covered)
        documents_shared += len(np.unique(np.searchsorted(np.cumsum(counts), covered, "right")))
        unmeasured_words += int(counts[short].sum())
        unmeasured_documents += int(short.sum())
    return WordOverlap(
        run_words=RUN_WORDS,
        words=words,
        shared=words_shared,
        documents=documents_shared,
        unmeasured_words=unmeasured_words,
        unmeasured_documents=unmeasured_documents,
    )


def _runs(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The words at which runs begin, the hashes of these runs, and the words of each text."""
    words, counts = word_hashes(texts.to_pylist())
    begins = np.flatnonzero(whole_ngrams(counts, RUN_WORDS))
    return begins, ngram_hashes(words, RUN_WORDS)[begins], counts


def _held_out_batches(records: Sequence[Path]) -> Iterator[pa.Array]:
    """The documents that are looked for, batch by batch."""
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
                yield batch.column("text").filter(mask_array(wanted))

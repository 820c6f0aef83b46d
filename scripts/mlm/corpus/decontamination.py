"""N-grams of words that train shares with texts by which the model is judged: documents of train
that have them are removed, as in Brown et al., 2020, arXiv 2005.14165, appendix C, but as a whole;
and what is left of them in the held-out splits is measured."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mlm.config.corpus import Corpus, CorpusConfiguration
from mlm.corpus.artefacts import (
    NOTHING,
    PassRecord,
    TakenByRule,
    WordOverlap,
    WrittenFile,
    add_taken,
)
from mlm.corpus.deduplication import CONTAMINATED, verdicts_of
from mlm.corpus.document_reading import documents_of_file
from mlm.corpus.formats import recorded_path
from mlm.corpus.spooling import SpooledCorpus, in_pieces, numpy_array
from mlm.corpus.words import NgramIndex, ngrams, word_hashes, words_of
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.errors import MlmError

#: Shorter texts are not looked for: too many documents have their words by chance.
SHORTEST = 8
#: n-grams of all texts: about 600 MB while they are sorted.
MOST = 20_000_000
#: Texts that are cut into words together.
_TEXTS = 1024
#: Words in a row that count as shared between train and a held-out split. Fewer than the 13 of
#: decontamination: a share of those would tell what was filtered, not what is left.
RUN_WORDS = 8
#: Words of a held-out split that are looked for, in documents at equal distances.
MOST_WORDS = 1_000_000


class Decontamination:
    """N-grams of words of texts of evaluations."""

    def __init__(self):
        self.rules: list[str] = []
        #: By length: hashes of n-grams, and the index of the rule of each.
        self._ngrams: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._indices: dict[int, NgramIndex] = {}
        self._total = 0

    def add(self, name: str, texts: Iterable[str], size: int) -> None:
        """Look for the n-grams of `size` words of `texts`, too, which count for the rule that
        `name` (a file, a split) gives its name. Raises MlmError for more than MOST n-grams."""
        rule = f"decontamination.{recorded_path(name)}"
        if rule not in self.rules:
            self.rules.append(rule)
        texts = iter(texts)
        while batch := list(islice(texts, _TEXTS)):
            words, counts = word_hashes(batch)
            # A shorter text is one n-gram.
            lengths = np.minimum(counts, size)
            for n in np.unique(lengths[lengths >= min(SHORTEST, size)]).tolist():
                of_length = lengths == n
                hashes, whole = ngrams(words[np.repeat(of_length, counts)], counts[of_length], n)
                labels = np.full(whole.sum(), self.rules.index(rule), np.int32)
                self._ngrams.setdefault(n, []).append((hashes[whole], labels))
                self._total += len(labels)
            if self._total > MOST:
                raise MlmError(
                    f"corpus.filters.decontamination: the texts up to {name} have more than "
                    f"{MOST:,} n-grams of words, which no job of the corpus can hold. Name fewer "
                    "texts, or a sample of them"
                )

    def contaminated(self, texts: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield the index of each of `texts` that has one of the n-grams, the first rule that looks
        for one, and the words of that n-gram."""
        if not self._indices:
            for n, parts in self._ngrams.items():
                self._indices[n] = NgramIndex(*map(np.concatenate, zip(*parts, strict=True)))
        words, counts = word_hashes(texts)
        ends, rows = np.cumsum(counts), [np.empty((4, 0), np.int64)]
        for n, index in self._indices.items():
            hashes, whole = ngrams(words, counts, n)
            begins = np.flatnonzero(whole)
            matching, indices = index.find(hashes[begins])
            begins = begins[matching]
            numbers = np.searchsorted(ends, begins, "right")
            rows.append(np.stack([numbers, index.labels[indices], begins, np.full_like(begins, n)]))
        matches = np.concatenate(rows, axis=1)
        matches = matches[:, np.lexsort(matches[2::-1])]
        _, first = np.unique(matches[0], return_index=True)
        for number, label, begin, n in matches[:, first].T.tolist():
            start, text = begin - int(ends[number] - counts[number]), texts[int(number)]
            yield number, self.rules[label], " ".join(words_of(text)[start : start + n])


def decontaminate(
    corpus: SpooledCorpus, part: int, configuration: CorpusConfiguration, record: Path
) -> None:
    """Note in `record` the documents of train in `part` that share words with texts of an
    evaluation; of held-out splits, with duplicates too. Raises MlmError for more n-grams than a job
    can hold, and if a file or a spool is damaged."""
    judging = _judging_texts(corpus, part, configuration)
    counts = dict.fromkeys(judging.rules, NOTHING)
    indices = corpus.remaining_indices(part, "train")
    numbers = corpus.numbering.documents_of("train", part)
    with verdicts_of(record, numbers) as verdicts:
        for batch in corpus.read(part, "train", indices) if counts else ():
            for piece in in_pieces(batch.column("text")):
                documents = piece.to_pylist()
                for index, rule, ngram in judging.contaminated(documents):
                    verdicts[indices[index]] = CONTAMINATED
                    taken = TakenByRule.of_one(len(documents[index]), ngram)
                    add_taken(counts, {rule: taken})
                indices = indices[len(documents) :]
    PassRecord(len(corpus.parts), (numbers.start, numbers.stop), counts).write(record)


def _judging_texts(
    corpus: SpooledCorpus, part: int, configuration: CorpusConfiguration
) -> Decontamination:
    """Index the texts of files, of the configuration and of held-out splits, in this order."""
    judging, mixed, texts = Decontamination(), corpus.parts[part].mixed, configuration.texts
    section = configuration.corpus.sources()[mixed.name if mixed else ""].filters.decontamination
    also = section.also or ()
    for path in section.against:
        judging.add(path, _texts(path, section.text_column), section.words)
    if "prompts" in also:
        judging.add("prompts", texts.prompts, section.words)
    if "finetuning" in also and (path := texts.finetuning_file):
        judging.add("finetuning", _texts(path, texts.finetuning_column), section.words)
    of_all = configuration.corpus.filters.decontamination
    for split in ("test", "validation"):
        if split in (of_all.also or ()):
            judging.add(split, _held_out_texts(corpus, split), of_all.words)
    return judging


def _texts(path: str, column: str) -> Iterator[str]:
    settings = Corpus(text_column=column, encoding_errors="replace")
    return (document.text for document in documents_of_file(path, settings))


def _held_out_texts(corpus: SpooledCorpus, split: str) -> Iterator[str]:
    for part in range(len(corpus.parts)):
        for batch in corpus.read(part, split):
            yield from batch.column("text").to_pylist()


class HeldOutRuns:
    """The runs of words of held-out splits by the record of their file, and which train has."""

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
    return WordOverlap(RUN_WORDS, *np.sum(overlaps, axis=0).tolist())


def _runs(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the hashes of the runs of `texts`, their first words, and the words of each text."""
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
                indices = numpy_array(np.flatnonzero(wanted))
                yield batch.column("text").take(indices).to_pylist()

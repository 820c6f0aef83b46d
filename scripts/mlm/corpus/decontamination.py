"""N-grams of words that train shares with texts by which the model is judged: documents of train
that have them are removed, as in Brown et al., 2020, arXiv 2005.14165, appendix C, but as a whole;
and what is left of them in the held-out splits is measured."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import cached_property
from itertools import islice

import numpy as np

from mlm.config.corpus import Corpus
from mlm.corpus.artefacts import TakenByRule, WordOverlap, add_taken
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.document_formats import documents_of_file
from mlm.corpus.source_files import recorded_path
from mlm.corpus.spooling import CONTAMINATED, Spool, SpooledCorpus
from mlm.corpus.words_and_minhash import NgramIndex, ngrams, word_hashes, words_of
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
        self._total = 0

    @cached_property
    def _indices(self) -> dict[int, NgramIndex]:
        return {
            n: NgramIndex(*map(np.concatenate, zip(*parts, strict=True)))
            for n, parts in self._ngrams.items()
        }

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


def decontaminate(corpus: SpooledCorpus, section: Corpus, pool: Executor) -> None:
    """Remove the documents of train that share words with texts of an evaluation; of held-out
    splits, with duplicates too. Raises MlmError for more n-grams than a job can hold."""
    sources, by_source, taken = section.sources(), {}, {}
    names = [part.mixed.name if part.mixed else "" for part in corpus.parts]
    for name in dict.fromkeys(names):
        by_source[name] = judging = Decontamination()
        filters = sources[name].filters.decontamination
        for path in filters.against:
            settings = Corpus(text_column=filters.text_column, encoding_errors="replace")
            texts = (document.text for document in documents_of_file(path, settings))
            judging.add(path, texts, filters.words)
        for split in ("test", "validation"):
            if split in section.judging:
                words = section.filters.decontamination.words
                judging.add(split, _all_texts(corpus, split), words)
        add_taken(taken, dict.fromkeys(judging.rules, TakenByRule()))

    def remove(spool: Spool) -> list[tuple[str, TakenByRule]]:
        indices, by_rule = corpus.remaining(spool), []
        judging = by_source[names[spool.part]]
        for batch in spool.read(["text"], indices) if judging.rules else ():
            texts = batch.column("text").to_pylist()
            for index, rule, ngram in judging.contaminated(texts):
                corpus.verdicts[spool.first + indices[index]] = CONTAMINATED
                by_rule.append((rule, TakenByRule.of_one(len(texts[index]), ngram)))
            indices = indices[len(texts) :]
        return by_rule

    for by_rule in pool.map(remove, corpus.spools_of("train")):
        for rule, one in by_rule:
            add_taken(taken, {rule: one})
    corpus.contaminated = taken


def _all_texts(corpus: SpooledCorpus, split: str) -> Iterator[str]:
    for spool in corpus.spools_of(split):
        for batch in spool.read(["text"], np.arange(sum(spool.batches))):
            yield from batch.column("text").to_pylist()


class HeldOutRuns:
    """The runs of words of held-out splits by `files` and `words`, and which of them train has."""

    def __init__(self, splits: Iterable[tuple[SplitDocuments, int]]):
        runs = [_runs(texts)[0] for split in splits for texts in _measured(*split)]
        self._index = NgramIndex(np.concatenate([np.empty(0, np.uint64), *runs]))
        self._shared = np.zeros(len(self._index.hashes), bool)

    def look_into(self, texts: Sequence[str]) -> None:
        """Look for the runs in `texts` of train."""
        self._shared[self._index.find(_runs(texts)[0])[1]] = True

    def overlap(self, documents: SplitDocuments, words: int) -> WordOverlap:
        """Return the overlap with train of a held-out split of so many `words`."""
        shared, sums = NgramIndex(self._index.hashes[self._shared]), np.zeros(5, np.int64)
        for texts in _measured(documents, words):
            hashes, begins, counts = _runs(texts)
            covered = begins[shared.find(hashes)[0]][:, None] + np.arange(RUN_WORDS)
            covered = np.unique(covered)
            with_runs = np.unique(np.searchsorted(np.cumsum(counts), covered, "right"))
            short = counts < RUN_WORDS
            measures = counts[~short].sum(), len(covered), len(with_runs), counts[short].sum()
            sums += np.array([*measures, short.sum()])
        return WordOverlap(RUN_WORDS, *sums.tolist())


def _runs(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the hashes of the runs of `texts`, their first words, and the words of each text."""
    words, counts = word_hashes(texts)
    hashes, whole = ngrams(words, counts, RUN_WORDS)
    return hashes[whole], np.flatnonzero(whole), counts


def _measured(split: SplitDocuments, words: int) -> Iterator[list[str]]:
    """Yield the documents of a split of so many `words` that are looked for, batch by batch."""
    chosen = len(split) if words <= MOST_WORDS else max(1, len(split) * MOST_WORDS // words)
    number = 0
    for texts in split.texts(1024):
        numbers = np.arange(number, number + len(texts), dtype=np.int64)
        number += len(texts)
        wanted = (numbers + 1) * chosen // len(split) > numbers * chosen // len(split)
        yield [text for text, is_wanted in zip(texts, wanted, strict=True) if is_wanted]

"""Documents of train that share an n-gram of words with texts of an evaluation, as in Brown et al.,
2020, arXiv 2005.14165, appendix C, but removed as a whole."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from mlm.config.corpus import Corpus, CorpusConfiguration, JudgingTexts
from mlm.config.filters import DecontaminationFilter
from mlm.corpus.artefacts import NOTHING, PassRecord, TakenByRule, add_taken
from mlm.corpus.deduplication import CONTAMINATED, KEPT, PRECEDENCE, removing
from mlm.corpus.document_reading import documents_of_file
from mlm.corpus.formats import recorded_path
from mlm.corpus.spooling import SpooledCorpus, in_pieces
from mlm.corpus.words import NgramIndex, ngrams, word_hashes, words_of
from mlm.foundations.errors import MlmError

#: Shorter texts are not looked for: too many documents have their words by chance.
SHORTEST = 8
#: n-grams of all texts: about 600 MB while they are sorted.
MOST = 20_000_000
#: Texts that are cut into words together.
_TEXTS = 1024


class Decontamination:
    """The n-grams of `words` words of texts of evaluations. Raises MlmError for more than MOST of
    them."""

    def __init__(self, words: int):
        self._words = words
        self.rules: list[str] = []
        #: By length: hashes of n-grams, and the index of the rule of each.
        self._ngrams: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._indices: dict[int, NgramIndex] = {}
        self._total = 0

    def add(self, rule: str, texts: Iterable[str]) -> None:
        """Look for the n-grams of `texts`, too, which count for `rule`."""
        if rule not in self.rules:
            self.rules.append(rule)
        texts = iter(texts)
        while batch := list(islice(texts, _TEXTS)):
            words, counts = word_hashes(batch)
            # A shorter text is one n-gram.
            lengths = np.minimum(counts, self._words)
            for n in np.unique(lengths[lengths >= min(SHORTEST, self._words)]).tolist():
                of_length = lengths == n
                hashes, whole = ngrams(words[np.repeat(of_length, counts)], counts[of_length], n)
                labels = np.full(whole.sum(), self.rules.index(rule), np.int32)
                self._ngrams.setdefault(n, []).append((hashes[whole], labels))
                self._total += len(labels)
            if self._total > MOST:
                raise MlmError(
                    f"corpus.filters.decontamination: the texts up to {rule.partition('.')[2]} "
                    f"have more than {MOST:,} n-grams of words, which no job of the corpus can "
                    "hold. Name fewer texts, or a sample of them"
                )

    def contaminated(self, texts: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield the index of each of `texts` that has one of the n-grams, the first rule that looks
        for one, and the words of that n-gram."""
        for n, parts in self._ngrams.items():
            if n not in self._indices:
                self._indices[n] = NgramIndex(*map(np.concatenate, zip(*parts, strict=True)))
        words, counts = word_hashes(texts) if self._indices else (np.empty(0), np.empty(0))
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
            start = begin - int(ends[number] - counts[number])
            yield number, self.rules[label], " ".join(words_of(texts[number])[start : start + n])


def decontaminate(
    corpus: SpooledCorpus, part: int, configuration: CorpusConfiguration, record: Path
) -> None:
    """Note in `record` the documents of train in `part` that share words with texts of an
    evaluation; of held-out splits, with duplicates too. Raises MlmError for more n-grams than a job
    can hold, and if a file or a spool is damaged."""
    counts: dict[str, TakenByRule] = {}
    removed: set[int] = set()
    corpus.check(part, "train")
    verdicts = corpus.verdicts(part, "train")
    numbers = np.flatnonzero(verdicts == KEPT).tolist()
    mixed = corpus.parts[part].mixed
    source = configuration.corpus.sources()[mixed.name if mixed else ""]
    for known in (
        _of_texts(source.filters.decontamination, configuration.texts),
        _of_splits(configuration.corpus.filters.decontamination, corpus),
    ):
        counts |= dict.fromkeys(known.rules, NOTHING)
        start = 0
        for batch in corpus.read(part, "train", verdicts) if known.rules else ():
            for piece in in_pieces(batch.column("text")):
                documents = piece.to_pylist()
                for index, rule, ngram in known.contaminated(documents):
                    if numbers[start + index] not in removed:
                        removed.add(numbers[start + index])
                        taken = TakenByRule.of_one(len(documents[index]), ngram)
                        add_taken(counts, {rule: taken})
                start += len(documents)
    with removing(record, len(corpus.parts)) as remove:
        verdict = np.full(len(removed), CONTAMINATED)
        remove(part, PRECEDENCE.index("train"), sorted(removed), verdict)
    PassRecord(len(corpus.parts), counts).write(record)


def _of_texts(section: DecontaminationFilter, texts: JudgingTexts) -> Decontamination:
    """Index the texts of files and of the configuration."""
    known = Decontamination(section.words)
    for path in section.against:
        known.add(rule_of(path), _texts(path, section.text_column))
    for name in ("prompts", "minimal_pairs"):
        if name in section.also:
            known.add(rule_of(name), getattr(texts, name))
    if "finetuning" in section.also:
        known.add(rule_of("finetuning"), _texts(texts.finetuning_file, texts.finetuning_column))
    return known


def _of_splits(section: DecontaminationFilter, corpus: SpooledCorpus) -> Decontamination:
    """Index the held-out splits of the corpus."""
    known = Decontamination(section.words)
    for split in ("test", "validation"):
        if split in section.also:
            known.add(rule_of(split), _held_out_texts(corpus, split))
    return known


def _held_out_texts(corpus: SpooledCorpus, split: str) -> Iterator[str]:
    for part in range(len(corpus.parts)):
        corpus.check(part, split)
        for batch in corpus.read(part, split):
            yield from batch.column("text").to_pylist()


def rule_of(text: str) -> str:
    """Return the name of the rule that removes documents with words of `text`, a file or a
    split."""
    return f"decontamination.{recorded_path(text)}"


def _texts(path: str, column: str) -> Iterator[str]:
    settings = Corpus(text_column=column, encoding_errors="replace")
    return (document.text for document in documents_of_file(path, settings))

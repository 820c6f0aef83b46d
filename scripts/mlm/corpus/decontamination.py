"""Documents of train that share an n-gram of words with texts that the model is judged by, as in
Brown et al., 2020, arXiv 2005.14165, appendix C, but left out as a whole."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mlm.config.corpus import Corpus
from mlm.corpus.artefacts import NOTHING, PassRecord, TakenByRule, add_taken
from mlm.corpus.deduplication import CONTAMINATED, KEPT, PRECEDENCE, removing
from mlm.corpus.file_patterns import recorded_path
from mlm.corpus.formats import documents_of_file
from mlm.corpus.parts import compared_splits
from mlm.corpus.spooling import SpooledCorpus
from mlm.foundations.errors import MlmError

#: A shorter text is not looked for: too many documents have its words by chance.
SHORTEST = 8
#: Different n-grams of all texts, about 500 MB. They are compared as text.
MOST = 2_000_000
_WORD = re.compile(r"\w+")


class Decontamination:
    """The n-grams of texts that the model is judged by, as `settings`, the section as
    `corpus_settings` has it, and `add` name them. Raises MlmError if a file cannot be read, or for
    more than MOST n-grams."""

    def __init__(self, settings: Mapping):
        self._words = settings.get("words", 13)
        # By length, each n-gram and the rule of the text in which it came first.
        self._n_grams: dict[int, dict[str, str]] = {}
        # Hashes of their halves, of short texts and of others, by the least length of these.
        self._halves: dict[int, set[int]] = {}
        self._total = 0
        self.rules: list[str] = []
        for path in settings.get("against", []):
            self.add(rule_of(path), _texts(path, settings["text_column"]))
        for name, texts in settings.get("texts", {}).items():
            self.add(rule_of(name), texts)
        if table := settings.get("table"):
            self.add(rule_of("finetuning"), _texts(*table))
        self.rules += [rule_of(split) for split in compared_splits(settings)]

    def add(self, rule: str, texts: Iterable[str]) -> None:
        """Look for the n-grams of `texts`, too, which count for `rule`."""
        if rule not in self.rules:
            self.rules.append(rule)
        for text in texts:
            words = _words(text)
            n = min(self._words, len(words))
            if n < min(SHORTEST, self._words):
                continue
            known = self._n_grams.setdefault(n, {})
            self._total -= len(known)
            for n_gram in _n_grams(words, n):
                known.setdefault(n_gram, rule)
            self._total += len(known)
            least = self._least(n)
            self._halves.setdefault(least, set()).update(_halves(words, least, 1))
            if self._total > MOST:
                raise MlmError(
                    f"corpus.filters.decontamination: the texts up to {rule.partition('.')[2]} "
                    f"have more than {MOST:,} different n-grams of words, which no job of the "
                    "corpus can hold. Name fewer texts, or a sample of them"
                )

    def contaminated(self, text: str, taken: dict[str, TakenByRule]) -> bool:
        """Whether a rule leaves out `text`; `taken` then has it, with the n-gram as its sample."""
        # Most configurations name no texts, and then words cost as much as all else.
        words = _words(text) if self._n_grams else []
        # Of halves at this distance, every n-gram has one; most documents have none of those.
        near = {
            least: not halves.isdisjoint(_halves(words, least, least // 2 + 1))
            for least, halves in self._halves.items()
        }
        for n, known in self._n_grams.items():
            for n_gram in _n_grams(words, n) if near[self._least(n)] else ():
                if n_gram in known:
                    taken[known[n_gram]] = TakenByRule.of_one(len(text), n_gram)
                    return True
        return False

    def _least(self, n: int) -> int:
        return n if n == self._words else SHORTEST


def decontaminate(corpus: SpooledCorpus, number: int, settings: Mapping, record: Path) -> None:
    """Note in `record` the documents of train in part `number` that have words of the held-out
    splits that `settings` name, duplicates among these included. Raises MlmError for more n-grams
    than a job can hold, and if a spool is damaged."""
    known, splits = Decontamination({"words": settings["words"]}), compared_splits(settings)
    for split in splits:
        for part in range(len(corpus.parts)):
            corpus.check(part, split)
            for batch in corpus.read(part, split):
                known.add(rule_of(split), batch.column("text").to_pylist())
    corpus.check(number, "train")
    counts = {rule_of(split): NOTHING for split in splits}
    verdicts = corpus.verdicts(number, "train")
    batches, found = corpus.read(number, "train", verdicts), []
    texts = (text for batch in batches for text in batch.column("text").to_pylist())
    for place, text in zip(np.flatnonzero(verdicts == KEPT).tolist(), texts, strict=True):
        taken: dict[str, TakenByRule] = {}
        if known.contaminated(text, taken):
            found.append(place)
            add_taken(counts, taken)
    with removing(record, len(corpus.parts)) as remove:
        remove(number, PRECEDENCE.index("train"), found, np.full(len(found), CONTAMINATED))
    PassRecord(len(corpus.parts), counts).write(record)


def rule_of(text: str) -> str:
    """The rule that leaves out of train what `text`, a file or a split, has too."""
    return f"decontamination.{recorded_path(text)}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _n_grams(words: Sequence[str], n: int) -> Iterator[str]:
    return map(" ".join, zip(*(words[start:] for start in range(n)), strict=False))


def _halves(words: Sequence[str], n: int, distance: int) -> Iterator[int]:
    """Hashes of what has half of `n` words, at every place or at a `distance`."""
    size = (n + 1) // 2
    places = range(0, len(words) - size + 1, distance)
    return (hash(tuple(words[place : place + size])) for place in places)


def _texts(path: str, column: str) -> Iterator[str]:
    settings = Corpus(text_column=column, encoding_errors="replace")
    return (document.text for document in documents_of_file(path, settings))

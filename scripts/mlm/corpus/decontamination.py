"""Documents of train that share an n-gram of words with texts that the model is judged by.

Brown et al., 2020, arXiv 2005.14165, appendix C, take 13-grams of words in lower case without
punctuation. There the surroundings of an n-gram are cut out; here its document is left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mlm.corpus.file_patterns import file_format
from mlm.corpus.rule_counts import Taken
from mlm.foundations.errors import MlmError

#: A shorter text is not looked for: too many documents have its words by chance.
SHORTEST = 8
#: Different n-grams of all texts, about 400 MB. They are compared as text.
MOST = 2_000_000
_WORD = re.compile(r"\w+")


class Decontamination:
    """The n-grams of the files that `settings` (the section `corpus.filters.decontamination`) name.

    Raises MlmError where a file cannot be read, or the n-grams are more than MOST.
    """

    def __init__(self, settings: Mapping):
        paths = settings.get("against", [])
        self.rules = list(dict.fromkeys(map(_rule, paths)))
        # By length, each n-gram and the rule of the file in which it came first.
        self._n_grams: dict[int, dict[str, str]] = {}
        total = 0
        for path in paths:
            for text in _texts(path, settings["text_column"]):
                words = _words(text)
                n = min(settings["words"], len(words))
                if n < min(SHORTEST, settings["words"]):
                    continue
                known = self._n_grams.setdefault(n, {})
                total -= len(known)
                for n_gram in _n_grams(words, n):
                    known.setdefault(n_gram, _rule(path))
                total += len(known)
                if total > MOST:
                    raise MlmError(
                        f"corpus.filters.decontamination.against: the texts up to {path} have more "
                        f"than {MOST:,} different n-grams of words, which no job of the corpus can "
                        "hold. Name fewer texts, or a sample of them"
                    )

    def judged(self, text: str, taken: list[Taken]) -> tuple[str, str | None]:
        """`text`, and the rule that leaves it out; None: it stays. Its sample is the n-gram."""
        words = _words(text)
        for n, known in self._n_grams.items():
            for n_gram in _n_grams(words, n):
                if n_gram in known:
                    taken.append(Taken(known[n_gram], len(text), n_gram))
                    return text, known[n_gram]
        return text, None


def _rule(path: str) -> str:
    # Where an absolute path was configured, the directory is this machine's own affair.
    name = Path(path).name if Path(path).is_absolute() else Path(path).as_posix()
    return f"decontamination.{name}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _n_grams(words: Sequence[str], n: int) -> Iterator[str]:
    return map(" ".join, zip(*(words[start:] for start in range(n)), strict=False))


def _texts(path: str, column: str) -> Iterator[str]:
    # Imported here: they load libraries that asking a training does not need.
    from mlm.corpus.decompression import ReadingPosition
    from mlm.corpus.formats import Reading, read_documents

    kind, compression = file_format(path)
    with ReadingPosition(0).opened(path, compression, 0, None) as opened:
        for document in read_documents(opened, path, kind, Reading(column, "replace")):
            yield document.text

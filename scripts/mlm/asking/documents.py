"""Where a sentence stands in the documents of the corpus: as it is, or nearly.

The texts of a split are read at once, and take as much memory as they are long.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlm.asking.nearness import best_stretch, likeliest, weights_of, words_of
from mlm.corpus.split_documents import SplitDocuments

#: So many words of a sentence, the longest, choose the documents that are looked at closely.
_TELLING_WORDS = 24
#: Categories of letters and digits that stand in scripts with spaces between words.
_SPACED = ("Lu", "Ll", "Lt", "Lm", "Nd")


@dataclass(frozen=True)
class Stretch:
    """Characters `start` to `end` of document `document` of a split, whose text is `text`."""

    split: str
    document: int
    text: str
    start: int
    end: int
    shared: int


class Documents:
    """The documents of `splits`."""

    def __init__(self, splits: dict[str, SplitDocuments]):
        self._splits = splits
        self._columns: dict[tuple[str, str], pa.ChunkedArray] = {}

    def exact(self, sentence: str) -> list[Stretch]:
        """Where `sentence` stands, in the order of the splits; white space is like white space.

        A match does not begin or end inside a word, in scripts that have spaces between words.
        """
        longest, found = max(sentence.split(), key=len), []
        for split in self._splits:
            texts = self._column(split, "text")
            mask = pc.match_substring(texts, longest)
            candidates = texts.filter(mask).to_pylist()
            for number, text in zip(_true(mask).tolist(), candidates, strict=True):
                found += matches(sentence, split, number, text)
        return found

    def nearest(self, sentence: str, count: int) -> list[Stretch]:
        """The `count` stretches that share the most words with `sentence`, each word weighing the
        more the rarer it is; best first.

        Words are compared whatever their case; a document gives one stretch. Of two alike, the
        one of the earlier split and document comes first. Empty where no word is shared.
        """
        wanted = [word for word, _, _ in words_of(sentence)]
        telling = telling_words(wanted)
        if not telling:
            return []
        lowered = {split: pc.utf8_lower(self._column(split, "text")) for split in self._splits}
        having = np.concatenate(
            [np.stack([_has(low, word) for word in telling]) for low in lowered.values()], axis=1
        )
        # Of words beyond those, which are short, none weighs more than the lightest.
        weights = dict(zip(telling, weights_of(having), strict=True))
        chosen = self._chosen(likeliest(having), [len(low) for low in lowered.values()])
        return nearest_of(chosen, wanted, weights, count)

    def _chosen(self, documents: list[int], sizes: list[int]) -> Iterator[tuple[str, int, str]]:
        """Split, number and text of `documents`, which are counted through all splits."""
        ends = np.cumsum(sizes)
        for number in documents:
            place = int(np.searchsorted(ends, number, side="right"))
            split = list(self._splits)[place]
            document = number - int(ends[place]) + sizes[place]
            yield split, document, self._column(split, "text")[document].as_py()

    def group(self, split: str, document: int) -> str | int:
        """The name of the group that the document belongs to, or its own number."""
        return self._column(split, "group")[document].as_py()

    def _column(self, split: str, name: str) -> pa.ChunkedArray:
        if (split, name) not in self._columns:
            self._columns[split, name] = self._splits[split].column(name)
        return self._columns[split, name]


def matches(sentence: str, split: str, document: int, text: str) -> list[Stretch]:
    """Where `sentence` stands in a document; white space is like white space."""
    pattern, shared = _pattern(sentence)
    return [
        Stretch(split, document, text, *match.span(), shared)
        for match in pattern.finditer(text)
        if not (_inside_word(text, match.start()) or _inside_word(text, match.end()))
    ]


@cache
def _pattern(sentence: str) -> tuple[re.Pattern, int]:
    """What finds `sentence`, and how many words it has."""
    return re.compile(r"\s+".join(map(re.escape, sentence.split()))), len(words_of(sentence))


def telling_words(wanted: Sequence[str]) -> list[str]:
    """Those of the words `wanted` that choose the documents that are looked at closely."""
    return sorted(set(wanted), key=lambda word: (-len(word), word))[:_TELLING_WORDS]


def nearest_of(
    documents: Iterable[tuple[str, int, str]],
    wanted: Sequence[str],
    weights: Mapping[str, float],
    count: int,
) -> list[Stretch]:
    """The best stretch of each of `documents` (split, number, text) that shares a word with
    `wanted`; the `count` best of them, of equals the first."""
    stretches = []
    for split, document, text in documents:
        words = words_of(text)
        first, last, shared, score = best_stretch([w for w, _, _ in words], wanted, weights)
        if shared:
            span = words[first][1], words[last - 1][2]
            stretches.append((Stretch(split, document, text, *span, shared), score))
    # Sorted stably: the order above decides between equals.
    return [one for one, _ in sorted(stretches, key=lambda s: -s[1])[:count]]


def _has(texts: pa.ChunkedArray, word: str) -> np.ndarray:
    """Whether each text holds the characters of `word`, bool [texts]."""
    having = np.zeros(len(texts), bool)
    having[_true(pc.match_substring(texts, word))] = True
    return having


def _true(mask: pa.ChunkedArray) -> np.ndarray:
    """The places where `mask` is true.

    By pyarrow's own to_numpy, as by its making of arrays, pandas would be imported, which takes
    longer than all else here.
    """
    return np.from_dlpack(pc.indices_nonzero(mask))


def _inside_word(text: str, place: int) -> bool:
    """Whether a word goes on from before `place` to behind it."""
    around = text[max(0, place - 1) : place + 1] if place else ""
    return len(around) == 2 and all(unicodedata.category(c) in _SPACED for c in around)

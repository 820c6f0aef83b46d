"""Where a sentence is in the documents of the corpus: as it is, or nearly."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.compute as pc

from mlm.asking.text_index import TextIndex, is_spaced
from mlm.corpus.split_documents import SplitDocuments

_WORD = re.compile(r"\w+")
#: So many words of a sentence, the longest, choose the documents that are looked at closely, the
#: rarest first, until so many documents have one.
_TELLING_WORDS, _MOST_CHOSEN = 24, 2_000_000
#: So many documents are looked at closely.
_LOOKED_AT = 200


@dataclass(frozen=True)
class Stretch:
    """Characters `start` to `end` of document `document` of a split, whose text is `text`."""

    split: str
    document: int
    text: str
    start: int
    end: int
    shared: int

    @property
    def passage(self) -> str:
        return self.text[self.start : self.end]


class Documents:
    """The documents of `splits`, by split."""

    def __init__(self, splits: dict[str, SplitDocuments]):
        self._splits = splits

    def exact(self, sentence: str) -> list[Stretch]:
        """Where `sentence` occurs, in the order of the splits; any white space equals any other,
        and in scripts with spaces between words a match neither begins nor ends inside a word."""
        found = []
        for split, documents in self._splits.items():
            for number, text in _texts_with(max(sentence.split(), key=len), documents):
                found += matches(sentence, split, number, text)
        return found

    def nearest(self, sentence: str, count: int) -> list[Stretch]:
        """The `count` stretches, one a document, that share the most words with `sentence` in any
        case, rare words weighing more; best first, of equals the earlier."""
        wanted = [word for word, _, _ in words_of(sentence)]
        telling = sorted(set(wanted), key=lambda word: (-len(word), word))[:_TELLING_WORDS]
        if not telling:
            return []
        indexes = [TextIndex(split, documents) for split, documents in self._splits.items()]
        counts = {word: sum(index.count(word) for index in indexes) for word in telling}
        ends = np.cumsum([0, *map(len, self._splits.values())])
        # The inverse document frequency of Spärck Jones, "A statistical interpretation of term
        # specificity" (1972), of numbers one larger.
        total = int(ends[-1]) + 1
        weights = {word: math.log(total / (counts[word] + 1)) + 1 for word in telling}
        scores, chosen = np.zeros(ends[-1]), 0
        for word in sorted((w for w in telling if counts[w]), key=lambda w: (counts[w], w)):
            if chosen and chosen + counts[word] > _MOST_CHOSEN:
                break
            chosen += counts[word]
            for first, index in zip(ends, indexes, strict=False):
                scores[first + index.holding(word)] += weights[word]
        best = np.argsort(-scores, kind="stable")[:_LOOKED_AT]
        best, stretches = np.sort(best[scores[best] > 0]), []
        for (split, documents), first in zip(self._splits.items(), ends, strict=False):
            own = best[(best >= first) & (best < first + len(documents))] - first
            for number, text in _texts_of(own, documents):
                words = words_of(text)
                items = [word for word, _, _ in words]
                begin, end, shared, score = best_stretch(items, wanted, weights)
                if shared:
                    span = words[begin][1], words[end - 1][2]
                    stretches.append((Stretch(split, number, text, *span, shared), score))
        # Sorted stably: the order above decides between equals.
        return [one for one, _ in sorted(stretches, key=lambda s: -s[1])[:count]]

    def group(self, split: str, document: int) -> str | int:
        """The name of the group that the document belongs to, or its own number."""
        (rows,) = self._splits[split].batches(["group"], 1, range(document, document + 1))
        return rows.column("group")[0].as_py()


def _texts_of(numbers: np.ndarray, documents: SplitDocuments) -> Iterator[tuple[int, str]]:
    """Number and text of the documents `numbers`, which are in order."""
    if not len(numbers):
        return
    for group in documents.row_groups(["text"], range(int(numbers[0]), int(numbers[-1]) + 1)):
        held = group.documents
        inside = numbers[(numbers >= held.start) & (numbers < held.stop)]
        if len(inside):
            column = group.column("text")
            yield from ((n, column[n - held.start].as_py()) for n in inside.tolist())


def _texts_with(part: str, documents: SplitDocuments) -> Iterator[tuple[int, str]]:
    """Number and text of each document with the characters of `part`."""
    for group in documents.row_groups(["text"]):
        column = group.column("text")
        # pyarrow's own to_numpy imports pandas, which takes longer than all else.
        for place in np.from_dlpack(pc.indices_nonzero(pc.match_substring(column, part))).tolist():
            yield group.documents.start + place, column[place].as_py()


def matches(sentence: str, split: str, document: int, text: str) -> list[Stretch]:
    """Where a document has `sentence`; any white space equals any other."""
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


def _inside_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and is_spaced(text[place - 1]) and is_spaced(text[place])


def words_of(text: str) -> list[tuple[str, int, int]]:
    """The words of `text`, case folded, and the characters [start, end) of each."""
    return [(found[0].casefold(), *found.span()) for found in _WORD.finditer(text)]


def best_stretch(
    items: Sequence[Hashable], wanted: Sequence[Hashable], weights: Mapping[Hashable, float]
) -> tuple[int, int, int, float]:
    """Start and end (from the first shared item to behind the last) of the stretch of `items`, as
    long as `wanted`, that shares the most with it, the number of shared items and their weight; of
    equals the first, all 0 if nothing is shared. Items count by `weights`, those without one as the
    lightest, and each of `wanted` once."""
    asked, inside = Counter(wanted), Counter()
    lightest = min(weights.values(), default=1.0)
    score, best, start = 0.0, 0.0, 0
    for end, item in enumerate(items):
        if item in asked:
            inside[item] += 1
            if inside[item] <= asked[item]:
                score += weights.get(item, lightest)
        gone = items[end - len(wanted)] if end >= len(wanted) else None
        if gone in asked:
            if inside[gone] <= asked[gone]:
                score -= weights.get(gone, lightest)
            inside[gone] -= 1
        # By more than sums of floating point numbers are off.
        if score > best + 1e-9:
            best, start = score, max(0, end + 1 - len(wanted))
    if not best:
        return 0, 0, 0, 0.0
    end = min(start + len(wanted), len(items))
    common = [place for place in range(start, end) if items[place] in asked]
    shared = (Counter(items[start:end]) & asked).total()
    return common[0], common[-1] + 1, shared, best

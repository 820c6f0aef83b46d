"""Where a sentence is in the documents of the corpus: as it is, or nearly."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.compute as pc

from mlm.corpus.split_documents import SplitDocuments
from mlm.corpus.words import NgramIndex, folded, inside_word, word_hashes, word_spans
from mlm.foundations.terminal import Progress

#: So many words of a sentence, the longest, choose the documents that are looked at closely, and so
#: many documents are.
_TELLING_WORDS, _LOOKED_AT = 24, 200
#: Documents whose words are compared at a time.
_TOGETHER = 1024


@dataclass(frozen=True)
class Stretch:
    """Characters `start` to `end` of a document of a split, whose whole text is `text`; so many
    words it shares with the sentence."""

    split: str
    document: int
    text: str
    start: int
    end: int
    shared: int

    @property
    def passage(self) -> str:
        return self.text[self.start : self.end]


def exact(sentence: str, splits: Mapping[str, SplitDocuments]) -> list[Stretch]:
    """Return where `sentence` occurs, in the order of the splits; any white space equals any other,
    and in scripts with spaces between words a match neither begins nor ends inside a word."""
    return [
        match
        for split, documents in splits.items()
        for number, text in _texts_with(max(sentence.split(), key=len), documents)
        for match in matches(sentence, split, number, text)
    ]


def nearest(sentence: str, splits: Mapping[str, SplitDocuments], count: int) -> list[Stretch]:
    """Return the `count` stretches, one a document, that share the most words with `sentence`, rare
    words weighing more; best first, of equals the earlier."""
    wanted = [word for word, _, _ in words_of(sentence)]
    telling = sorted(set(wanted), key=lambda word: (-len(word), word))[:_TELLING_WORDS]
    if not telling:
        return []
    holding = [_holding(telling, *split) for split in splits.items()]
    ends = np.cumsum([0, *map(len, holding)])
    # The inverse document frequency of Spärck Jones, "A statistical interpretation of term
    # specificity" (1972), of numbers one larger.
    scores, weights = np.zeros(ends[-1]), {}
    for bit, word in enumerate(telling):
        has_word = (np.concatenate(holding) >> bit) & 1
        weights[word] = math.log((ends[-1] + 1) / (has_word.sum() + 1)) + 1
        scores += weights[word] * has_word
    best = np.argsort(-scores, kind="stable")[:_LOOKED_AT]
    best, stretches = np.sort(best[scores[best] > 0]), []
    for (split, documents), first in zip(splits.items(), ends, strict=False):
        numbers = best[(best >= first) & (best < first + len(documents))] - first
        for number, text in _texts_of(numbers, documents):
            words = words_of(text)
            items = [word for word, _, _ in words]
            begin, end, shared, score = best_stretch(items, wanted, weights)
            if shared:
                span = words[begin][1], words[end - 1][2]
                stretches.append((Stretch(split, number, text, *span, shared), score))
    # Sorted stably: the order above decides between equals.
    return [one for one, _ in sorted(stretches, key=lambda s: -s[1])[:count]]


def _holding(telling: Sequence[str], split: str, documents: SplitDocuments) -> np.ndarray:
    """Return for each document in bit i whether it has word i of `telling`: uint32 [documents]."""
    hashes, counts = word_hashes(telling)
    # A word may fold to several, any of which counts for it.
    index = NgramIndex(hashes, np.repeat(np.arange(len(telling)), counts))
    progress = Progress(f"comparing {split}", len(documents), "documents")
    held = np.zeros(len(documents), np.uint32)
    first = 0
    for texts in documents.texts(_TOGETHER):
        hashes, counts = word_hashes(texts)
        places, entries = index.find(hashes)
        numbers = first + np.repeat(np.arange(len(texts)), counts)[places]
        bits = np.uint32(1) << index.labels[entries].astype(np.uint32)
        np.bitwise_or.at(held, numbers, bits)
        first += len(texts)
        progress.to(first)
    return held


def _texts_of(numbers: np.ndarray, documents: SplitDocuments) -> Iterator[tuple[int, str]]:
    """Yield number and text of the documents `numbers`, which are in order."""
    if not len(numbers):
        return
    for group in documents.row_groups(["text"], range(int(numbers[0]), int(numbers[-1]) + 1)):
        held = group.documents
        inside = numbers[(numbers >= held.start) & (numbers < held.stop)]
        if len(inside):
            column = group.column("text")
            yield from ((n, column[n - held.start].as_py()) for n in inside.tolist())


def _texts_with(part: str, documents: SplitDocuments) -> Iterator[tuple[int, str]]:
    """Yield number and text of each document with the characters of `part`."""
    for group in documents.row_groups(["text"]):
        column = group.column("text")
        # pyarrow's to_numpy imports pandas, which takes longer than all else.
        has_part = pc.call_function("match_substring", [column], pc.MatchSubstringOptions(part))
        for place in np.from_dlpack(pc.call_function("indices_nonzero", [has_part])).tolist():
            yield group.documents.start + place, column[place].as_py()


def matches(sentence: str, split: str, document: int, text: str) -> list[Stretch]:
    """Return where a document has `sentence`; any white space equals any other."""
    pattern, shared = _pattern(sentence)
    return [
        Stretch(split, document, text, match.start(), match.end(), shared)
        for match in pattern.finditer(text)
        if not (inside_word(text, match.start()) or inside_word(text, match.end()))
    ]


@cache
def _pattern(sentence: str) -> tuple[re.Pattern, int]:
    """Return the pattern of `sentence`, and the number of its words."""
    return re.compile(r"\s+".join(map(re.escape, sentence.split()))), len(words_of(sentence))


def words_of(text: str) -> list[tuple[str, int, int]]:
    """Return the words of `text`, case folded, and the characters [start, end) of each."""
    return [(folded(text[start:end]), start, end) for start, end in word_spans(text)]


def best_stretch(
    items: Sequence[Hashable], wanted: Sequence[Hashable], weights: Mapping[Hashable, float]
) -> tuple[int, int, int, float]:
    """Return start and end (from the first shared item to behind the last) of the stretch of
    `items`, as long as `wanted`, that shares the most with it, the number of shared items and their
    weight; of equals the first, all 0 if nothing is shared. Items count by `weights`, those without
    one as the lightest, and each of `wanted` once."""
    counts, inside = Counter(wanted), Counter()
    lightest = min(weights.values(), default=1.0)
    score, best, start = 0.0, 0.0, 0
    for end, item in enumerate(items):
        if item in counts:
            inside[item] += 1
            if inside[item] <= counts[item]:
                score += weights.get(item, lightest)
        gone = items[end - len(wanted)] if end >= len(wanted) else None
        if gone in counts:
            if inside[gone] <= counts[gone]:
                score -= weights.get(gone, lightest)
            inside[gone] -= 1
        # By more than sums of floating point numbers are off.
        if score > best + 1e-9:
            best, start = score, max(0, end + 1 - len(wanted))
    if not best:
        return 0, 0, 0, 0.0
    end = min(start + len(wanted), len(items))
    common = [place for place in range(start, end) if items[place] in counts]
    return common[0], common[-1] + 1, (Counter(items[start:end]) & counts).total(), best

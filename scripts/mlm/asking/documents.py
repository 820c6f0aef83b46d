"""Where a sentence is in the documents of the corpus."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.compute as pc

from mlm.corpus.split_documents import SplitDocuments
from mlm.corpus.words import inside_word


@dataclass(frozen=True)
class Stretch:
    """Characters `start` to `end` of a document of a split, whose whole text is `text`."""

    split: str
    document: int
    text: str
    start: int
    end: int

    @property
    def passage(self) -> str:
        return self.text[self.start : self.end]


def occurrences(sentence: str, splits: Mapping[str, SplitDocuments]) -> list[Stretch]:
    """Return where `sentence` occurs, in the order of the splits; any white space equals any other,
    and in scripts with spaces between words a match neither begins nor ends inside a word."""
    return [
        match
        for split, documents in splits.items()
        for number, text in _texts_with(max(sentence.split(), key=len), documents)
        for match in matches(sentence, split, number, text)
    ]


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
    return [
        Stretch(split, document, text, match.start(), match.end())
        for match in _pattern(sentence).finditer(text)
        if not (inside_word(text, match.start()) or inside_word(text, match.end()))
    ]


@cache
def _pattern(sentence: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, sentence.split())))

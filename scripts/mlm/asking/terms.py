"""The terms that a text is indexed by, such that what they say of any string is exact.

A term is a run of word characters, lowered as the search without an index lowers texts. Scripts
that are written without spaces have no runs worth keeping: there each pair of neighbouring
characters is a term, and a character that stands alone. So a string of word characters stands in a
text only if it stands within one of the text's terms, or its pairs are among them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

#: Blocks of scripts without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, kana, and
#: Chinese characters with their extensions.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WORD = re.compile(r"\w+")
_RUN = re.compile(rf"[^\W{_UNSPACED}]+|[{_UNSPACED}]+")
#: So many runs of a document are a passage. A longer document is several.
PASSAGE_RUNS = 1024


@dataclass(frozen=True)
class Run:
    """A run of characters of a lowered string, all of scripts with spaces or all of the others, and
    the characters [start, end) that it takes."""

    text: str
    start: int
    end: int

    @property
    def spaced(self) -> bool:
        return not _ANY_UNSPACED.match(self.text)

    @property
    def pairs(self) -> list[str]:
        """The terms of a run without spaces."""
        return [self.text[i : i + 2] for i in range(len(self.text) - 1)] or [self.text]


def lowered(texts: pa.Array) -> pa.Array:
    """`texts` as terms are taken from them: character by character, wherever it stands."""
    return pc.utf8_lower(texts)


def runs_of(text: str) -> list[Run]:
    """The runs of a lowered string, in order."""
    return [Run(found[0], *found.span()) for found in _RUN.finditer(text)]


def passages_of(text: str) -> Iterator[set[str]]:
    """The terms of each passage of a lowered document; at least one passage."""
    spaced = not _ANY_UNSPACED.search(text)
    runs = (_WORD if spaced else _RUN).findall(text)
    for start in range(0, max(len(runs), 1), PASSAGE_RUNS):
        part = runs[start : start + PASSAGE_RUNS]
        if spaced:
            yield set(part)
            continue
        terms = set()
        for run in part:
            terms.update(Run(run, 0, 0).pairs if _ANY_UNSPACED.match(run) else (run,))
        yield terms

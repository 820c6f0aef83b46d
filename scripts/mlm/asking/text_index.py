"""An index of the words of a split: SQLite's full-text search (FTS5) says which documents can hold
a text, and their texts decide.

Each document is a row, with its number as the row's. A term is a run of letters and digits of a
script that has spaces between words, case folded, as a match of the search begins and ends with
whole ones (`mlm.asking.documents.matches`). Of other scripts each pair of neighbouring characters
is a term, and the last character of a run: FTS5's own trigrams find nothing shorter than three.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.terminal import Progress

#: Categories of letters and digits that are in scripts with spaces between words.
_SPACED = ("Lu", "Ll", "Lt", "Lm", "Nd")
_WORD = re.compile(r"\w+")
#: Terms wait in 32 MiB of memory.
_CREATE = (
    "PRAGMA page_size=4096",
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "CREATE VIRTUAL TABLE words USING "
    "fts5(terms, content='', detail='none', columnsize=0, tokenize='ascii')",
    "INSERT INTO words(words, rank) VALUES ('hashsize', 33554432)",
)
#: Documents that are read at a time, words whose terms are remembered, and terms of a question.
_READ, _REMEMBERED, _ASKED = 1024, 500_000, 64


def is_spaced(character: str) -> bool:
    """Whether the character is a letter or digit of a script with spaces between words."""
    return unicodedata.category(character) in _SPACED


def _runs(word: str) -> Iterator[tuple[bool, str]]:
    for spaced, characters in groupby(word.replace("_", " "), is_spaced):
        yield spaced, "".join(characters)


class _Terms(dict):
    """The terms of each word, divided by spaces."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        terms = []
        for spaced, run in _runs(word):
            terms += [run] if spaced else [run[i : i + 2] for i in range(len(run))]
        self[word] = found = " ".join(terms).casefold()
        return found

    def of(self, text: str) -> str:
        # The tokenizer itself divides and folds ASCII just so.
        return text if text.isascii() else " ".join(self[word] for word in _WORD.findall(text))


def _query(text: str) -> str | None:
    """What FTS5 is asked for documents that hold `text`; None if it has no terms."""
    terms = set()
    for word in _WORD.findall(text):
        for spaced, run in _runs(word):
            if spaced or len(run) > 1:
                pairs = [run] if spaced else [run[i : i + 2] for i in range(len(run) - 1)]
                terms.update(f'"{pair.casefold()}"' for pair in pairs if not pair.isspace())
            elif not run.isspace():
                # In the document another character may follow it.
                terms.add(f'"{run.casefold()}" *')
    return " AND ".join(sorted(terms, key=lambda term: (-len(term), term))[:_ASKED]) or None


class TextIndex:
    """An index of `documents` for the time of an answer, in memory or in a temporary file."""

    def __init__(self, split: str, documents: SplitDocuments):
        self._file = sqlite3.connect("", isolation_level=None)
        _fill(self._file, split, documents)

    def holding(self, text: str) -> np.ndarray | None:
        """The documents that can hold `text`, all that do among them, in order; None where the
        index cannot tell."""
        if (query := _query(text)) is None:
            return None
        asked = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid"
        return np.fromiter((number for (number,) in self._file.execute(asked, (query,))), np.int64)

    def count(self, text: str) -> int:
        """How many documents `holding` gives; 0 where the index cannot tell."""
        asked, query = "SELECT count(*) FROM words WHERE words MATCH ?", _query(text)
        return self._file.execute(asked, (query,)).fetchone()[0] if query else 0


def _fill(file: sqlite3.Connection, split: str, documents: SplitDocuments) -> None:
    for statement in _CREATE:
        file.execute(statement)
    file.execute("BEGIN")
    progress = Progress(f"indexing {split}", len(documents), "documents")
    terms, number = _Terms(), 0
    for rows in documents.batches(["text"], _READ):
        texts = enumerate(map(terms.of, rows.column("text").to_pylist()), number)
        file.executemany("INSERT INTO words(rowid, terms) VALUES (?, ?)", texts)
        number += len(rows)
        progress.to(number)

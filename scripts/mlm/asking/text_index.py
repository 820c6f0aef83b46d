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
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import FileMemory, file_sha256
from mlm.foundations.errors import SAME_COMMAND, MlmError
from mlm.foundations.progress_line import Progress
from mlm.foundations.typed_artefacts import Artefact

#: Categories of letters and digits that are in scripts with spaces between words.
_SPACED = ("Lu", "Ll", "Lt", "Lm", "Nd")
_WORD = re.compile(r"\w+")
#: The bytes of an index follow from these, its documents and SQLite's version. Terms wait in
#: 32 MiB of memory, are merged into one segment, and the file is packed.
_CREATE = (
    "PRAGMA page_size=4096",
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "CREATE VIRTUAL TABLE words USING "
    "fts5(terms, content='', detail='none', columnsize=0, tokenize='ascii')",
    "INSERT INTO words(words, rank) VALUES ('hashsize', 33554432)",
)
_FINISH = ("INSERT INTO words(words) VALUES ('optimize')", "COMMIT", "VACUUM")
#: Documents that are read at a time, words whose terms are remembered, and terms of a question.
_READ, _REMEMBERED, _ASKED = 1024, 500_000, 64


@dataclass(frozen=True)
class IndexRecord(Artefact):
    """results/index/{split}.json: the corpus that an index was made from, sizes, its own digest."""

    split: str
    corpus_sha256: str
    documents: int
    num_bytes: int
    sha256: str


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
    """An index that is open to be asked."""

    def __init__(self, file: sqlite3.Connection):
        self._file = file

    @classmethod
    def at(cls, path: Path) -> "TextIndex":
        """The index in the file `path`, which `build_index` wrote."""
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        return cls(sqlite3.connect(uri, uri=True))

    @classmethod
    def temporary(cls, split: str, documents: SplitDocuments) -> "TextIndex":
        """An index of `documents` that is gone when it is closed."""
        file = sqlite3.connect("", isolation_level=None)
        _fill(file, split, documents)
        return cls(file)

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


def build_index(split: str, described: Path, path: Path) -> IndexRecord:
    """Write the index of the split that results/corpus/{split}.json describes to `path`; its
    record, which the caller writes."""
    corpus = SplitDocuments.described(described)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.unlink(missing_ok=True)
        with closing(sqlite3.connect(temporary, isolation_level=None)) as file:
            _fill(file, split, corpus)
            for statement in _FINISH:
                file.execute(statement)
    return IndexRecord(
        split=split,
        corpus_sha256=corpus.sha256(),
        documents=len(corpus),
        num_bytes=path.stat().st_size,
        sha256=file_sha256(path),
    )


def open_indexes(
    splits: dict[str, SplitDocuments], results: Path, memory: FileMemory
) -> tuple[dict[str, TextIndex], list[str]]:
    """The indexes that there are of `splits`, and a sentence on each that is of other data;
    MlmError for one that is damaged."""
    indexes, notes = {}, []
    again = f"To have it made again: rm -r {results / 'index'}, then {SAME_COMMAND} index"
    for split, documents in splits.items():
        path = results / "index" / f"{split}.sqlite"
        record = path.with_suffix(".json")
        if not record.exists():
            continue
        try:
            said = IndexRecord.read(record)
            whole = path.exists() and memory.sha256(path) == said.sha256
        except MlmError:
            whole = False
        if not whole:
            raise MlmError(f"{path}: is not what {record} says, or one of them is damaged. {again}")
        if documents.sha256(memory.sha256) == said.corpus_sha256:
            indexes[split] = TextIndex.at(path)
        else:
            notes.append(
                f"{record}: is the index of another {documents.named}, and was not used. {again}"
            )
    return indexes, notes

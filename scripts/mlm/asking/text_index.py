"""The file of an index: which terms stand in which passages of a split, and how its documents were
packed.

An SQLite file. Terms stand sorted by their bytes in blocks, each with the numbers of the passages
that hold them: differences, in bytes of seven bits each (Cutting and Pedersen, "Optimizations for
dynamic inverted index maintenance", 1990). A term is looked up by its block; a part of a word, in
the terms of all blocks, which are small beside what they point to.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mlm.foundations.errors import MlmError

TABLES = """
CREATE TABLE block (number INTEGER PRIMARY KEY, first BLOB, terms BLOB, counts BLOB, sizes BLOB);
CREATE TABLE postings (block INTEGER PRIMARY KEY, passages BLOB);
CREATE TABLE documents (passages BLOB);
CREATE TABLE packed (shard INTEGER PRIMARY KEY, tokens BLOB);
"""


def encoded(numbers: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Non-negative `numbers` [n] below 2**35 as bytes, the last of each number below 128, and how
    many bytes each takes, [n]."""
    numbers = np.asarray(numbers, np.int64)
    sizes = np.ones(len(numbers), np.int64)
    for place in range(1, 5):
        sizes += numbers >= 1 << 7 * place
    ends = np.cumsum(sizes)
    found = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - sizes
    for place in range(int(sizes.max(initial=0))):
        longer = sizes > place
        more = np.where(sizes[longer] > place + 1, 128, 0)
        found[starts[longer] + place] = (numbers[longer] >> 7 * place & 127) | more
    return found.tobytes(), sizes


def decoded(data: bytes | np.ndarray) -> np.ndarray:
    """The numbers that `encoded` gave `data` for, int64."""
    read = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    ends = np.flatnonzero(read < 128)
    if len(ends) == len(read):
        return read.astype(np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts + 1
    found = read[starts].astype(np.int64) & 127
    for place in range(1, int(sizes.max())):
        longer = np.flatnonzero(sizes > place)
        found[longer] |= (read[starts[longer] + place].astype(np.int64) & 127) << 7 * place
    return found


@dataclass(frozen=True)
class _Block:
    """The terms of a block, UTF-8 with a line feed before each and at the end."""

    number: int
    terms: bytes
    counts: bytes
    sizes: bytes

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.flatnonzero(np.frombuffer(self.terms, np.uint8) == 10)

    def containing(self, part: bytes) -> list[int]:
        """The terms that hold `part`, by their place in the block."""
        found, at = [], self.terms.find(part)
        while at >= 0:
            place = int(np.searchsorted(self._ends, at, side="right")) - 1
            found.append(place)
            at = self.terms.find(part, int(self._ends[place + 1]))
        return found

    def place_of(self, term: bytes) -> int | None:
        at = self.terms.find(b"\n%b\n" % term)
        return None if at < 0 else self.terms.count(b"\n", 0, at + 1) - 1


class TextIndex:
    """The index of a split, open to be read.

    Raises MlmError, from any of its methods, where the file is no index or is damaged; `remedy` is
    the sentence that says how to have it made again.
    """

    def __init__(self, path: Path, remedy: str):
        self._path, self._remedy = path, remedy
        with self._reading():
            self._file = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)

    @contextmanager
    def _reading(self):
        try:
            yield
        except (sqlite3.Error, ValueError, IndexError, TypeError) as error:
            raise MlmError(f"{self._path} is damaged: {error}. {self._remedy}") from None

    def _rows(self, statement: str, *values) -> list[tuple]:
        return self._file.execute(statement, values).fetchall()

    @cached_property
    def first_passage(self) -> np.ndarray:
        """The first passage of each document and, at the end, the number of all passages."""
        with self._reading():
            counts = decoded(self._rows("SELECT passages FROM documents")[0][0])
        return np.concatenate(([0], np.cumsum(counts)))

    def tokens(self, shard: int) -> np.ndarray:
        """How many tokens each document of a shard has there, those of its ends with them."""
        with self._reading():
            return decoded(self._rows("SELECT tokens FROM packed WHERE shard = ?", shard)[0][0])

    def holding(self, terms: Sequence[str]) -> np.ndarray:
        """Whether each passage has each of `terms`, bool [terms, passages]."""
        having = self._none(len(terms))
        with self._reading():
            for row, term in enumerate(terms):
                data = term.encode()
                found = self._rows(
                    "SELECT number, terms, counts, sizes FROM block WHERE first <= ? "
                    "ORDER BY first DESC LIMIT 1",
                    data,
                )
                place = _Block(*found[0]).place_of(data) if found else None
                if place is not None:
                    self._mark(having, _Block(*found[0]), {row: [place]})
        return having

    def containing(self, parts: Sequence[str]) -> np.ndarray:
        """Whether each passage has a term that holds each of `parts`, bool [parts, passages]."""
        having, texts = self._none(len(parts)), [part.encode() for part in parts]
        with self._reading():
            for row in self._file.execute(
                "SELECT number, terms, counts, sizes FROM block ORDER BY number"
            ):
                block = _Block(*row)
                places = {n: block.containing(t) for n, t in enumerate(texts) if t in block.terms}
                if places:
                    self._mark(having, block, places)
        return having

    def _none(self, rows: int) -> np.ndarray:
        return np.zeros((rows, int(self.first_passage[-1])), bool)

    def _mark(self, having: np.ndarray, block: _Block, places: dict[int, list[int]]) -> None:
        """Set row by row of `having` the passages of the terms at `places` of `block`."""
        (data,) = self._rows("SELECT passages FROM postings WHERE block = ?", block.number)[0]
        counts, sizes = decoded(block.counts), decoded(block.sizes)
        wanted = np.unique(np.concatenate(list(map(np.array, places.values()))))
        read, ends = np.frombuffer(data, np.uint8), np.cumsum(sizes)
        if len(wanted) < len(counts):
            parts = [read[ends[place] - sizes[place] : ends[place]] for place in wanted]
            read = np.concatenate(parts)
        counts = counts[wanted]
        steps = np.cumsum(decoded(read) + 1)
        last = np.cumsum(counts)
        before = np.concatenate(([0], steps[last[:-1] - 1]))
        passages = steps - np.repeat(before, counts) - 1
        for row, chosen in places.items():
            if len(chosen) == len(wanted):
                having[row, passages] = True
                continue
            for place in np.searchsorted(wanted, chosen):
                having[row, passages[last[place] - counts[place] : last[place]]] = True

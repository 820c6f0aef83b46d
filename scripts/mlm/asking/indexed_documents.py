"""Where a sentence stands in documents that have an index: what `Documents` answers, of any size.

The index says which documents can hold the sentence, and their texts, which are read by row
group, decide. Nothing but what is asked for is held in memory.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.asking.artefacts import IndexRecord
from mlm.asking.documents import Documents, Stretch, matches, nearest_of, telling_words
from mlm.asking.nearness import likeliest, weights_of, words_of
from mlm.asking.terms import PASSAGE_RUNS, Run, lowered, runs_of
from mlm.asking.text_index import TextIndex
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.digests import FileMemory, file_sha256
from mlm.foundations.errors import SAME_COMMAND, MlmError, remedy

#: A shorter part of a word stands in too many words to be worth looking up.
_LONG_PART = 4


class IndexedDocuments:
    """The documents of `splits`, with an index of each."""

    def __init__(self, splits: dict[str, SplitDocuments], indexes: dict[str, TextIndex]):
        self._splits = {split: _Split(splits[split], indexes[split]) for split in splits}

    def exact(self, sentence: str) -> list[Stretch]:
        """As `Documents.exact`."""
        found = []
        for name, split in self._splits.items():
            for number, text in split.texts(split.possible(sentence)):
                found += matches(sentence, name, number, text)
        return found

    def nearest(self, sentence: str, count: int) -> list[Stretch]:
        """As `Documents.nearest`."""
        wanted = [word for word, _, _ in words_of(sentence)]
        telling = telling_words(wanted)
        if not telling:
            return []
        having = np.concatenate([s.having(telling) for s in self._splits.values()], axis=1)
        weights = dict(zip(telling, weights_of(having), strict=True))
        chosen = np.array(likeliest(having), np.int64)
        return nearest_of(self._chosen(chosen), wanted, weights, count)

    def group(self, split: str, document: int) -> str | int:
        """As `Documents.group`."""
        return self._splits[split].group(document)

    def _chosen(self, documents: np.ndarray) -> Iterator[tuple[str, int, str]]:
        """Split, number and text of `documents`, which are counted through all splits."""
        first = 0
        for name, split in self._splits.items():
            own = documents[(documents >= first) & (documents < first + split.documents)] - first
            yield from ((name, number, text) for number, text in split.texts(own))
            first += split.documents


class _Split:
    """The documents of one split."""

    def __init__(self, documents: SplitDocuments, index: TextIndex):
        self._documents, self._index = documents, index

    @property
    def documents(self) -> int:
        return len(self._index.first_passage) - 1

    def possible(self, sentence: str) -> np.ndarray:
        """The documents that can hold `sentence`, all that do among them, in order.

        Each term within the sentence stands in the passage where a match begins, or in the next.
        """
        text = _lowered(sentence)
        runs = runs_of(text)[:PASSAGE_RUNS]
        whole, parts = set(), set()
        for run in runs:
            inside = run.start > 0 and run.end < len(text)
            if not run.spaced:
                # One character is a part of the pairs that it stands in.
                (whole if len(run.text) > 1 else parts).update(run.pairs)
            elif inside:
                whole.add(run.text)
            else:
                parts.add(run.text)
        if whole:
            parts = {part for part in parts if len(part) >= _LONG_PART}
        having = np.ones(int(self._index.first_passage[-1]), bool)
        for terms, look_up in ((whole, self._index.holding), (parts, self._index.containing)):
            for found in look_up(sorted(terms)):
                having &= found | np.append(found[1:], False)
        return self._documents_with(having[None])[0].nonzero()[0]

    def having(self, words: list[str]) -> np.ndarray:
        """Whether the lowered text of each document holds each of `words`, bool
        [words, documents]."""
        runs = [runs_of(word) for word in words]
        # Of one run, the index knows; of several, only which documents can.
        known = [len(r) == 1 and (r[0].spaced or len(r[0].text) <= 2) for r in runs]
        known = [k and r[0].text == w for k, r, w in zip(known, runs, words, strict=True)]
        parts = sorted({part for r in runs for run in r for part in _parts(run)})
        found = self._documents_with(self._index.containing(parts))
        rows = dict(zip(parts, found, strict=True))
        having = np.ones((len(words), self.documents), bool)
        for row, of_word in zip(having, runs, strict=True):
            for run in of_word:
                for part in _parts(run):
                    row &= rows[part]
        unknown = [i for i, k in enumerate(known) if not k]
        if unknown:
            open_to = having[unknown].any(axis=0).nonzero()[0]
            for number, text in self.texts(open_to):
                low = _lowered(text)
                for i in unknown:
                    having[i, number] &= words[i] in low
        return having

    def _documents_with(self, having: np.ndarray) -> np.ndarray:
        """`having` [rows, passages] for the documents, [rows, documents]."""
        if not having.shape[0] or self.documents == having.shape[1]:
            return having[:, : self.documents]
        return np.logical_or.reduceat(having, self._index.first_passage[:-1], axis=1)

    def texts(self, documents: np.ndarray) -> Iterator[tuple[int, str]]:
        """The number and text of each of `documents`, which are in order."""
        if not len(documents):
            return
        around = range(int(documents[0]), int(documents[-1]) + 1)
        for group in self._documents.row_groups(["text"], around):
            held = group.documents
            inside = documents[(documents >= held.start) & (documents < held.stop)]
            if len(inside):
                column = group.column("text")
                yield from ((n, column[n - held.start].as_py()) for n in inside.tolist())

    def group(self, document: int) -> str | int:
        (rows,) = self._documents.batches(["group"], 1, range(document, document + 1))
        return rows.column("group")[0].as_py()


def _parts(run: Run) -> list[str]:
    """What a text that holds `run` has among its terms, whole or as a part."""
    return [run.text] if run.spaced else run.pairs


def _lowered(text: str) -> str:
    return lowered(pa.array([text]))[0].as_py()


def documents_of(
    splits: dict[str, SplitDocuments],
    manifests: dict[str, Path],
    directory: Path,
    memory: FileMemory,
    command: str,
) -> tuple[Documents | IndexedDocuments, dict[str, TextIndex], tuple[str, ...]]:
    """The documents of `splits`, by their indexes in `directory` where all are there and fit.

    Gives the indexes as well, by split, and sentences on those that were not used. `manifests` are
    those of the splits, `command` has the indexes made. Raises MlmError for an index that is
    damaged.
    """
    indexes, notes = {}, []
    for split, documents in splits.items():
        record = directory / f"{split}.json"
        if not record.exists():
            continue
        try:
            found = IndexRecord.read(record)
        except MlmError as error:
            raise MlmError(str(error).replace(SAME_COMMAND, command)) from None
        manifest = manifests[split]
        other = [documents.named] if documents.sha256(memory.sha256) != found.corpus_sha256 else []
        if not manifest.exists() or memory.sha256(manifest) != found.manifest_sha256:
            other.append(str(manifest))
        if other:
            notes.append(
                f"{record}: is the index of another {' and another '.join(other)}, and was not "
                f"used. To have it made again: {command}"
            )
            continue
        path = record.with_suffix(".sqlite")
        again = remedy(path, record).replace(SAME_COMMAND, command)
        if not path.exists():
            raise MlmError(f"{path}: is missing, beside its record {record}. {again}")
        if memory.sha256(path) != found.sha256:
            raise MlmError(
                f"{path} is damaged: it is not what was written (sha256 "
                f"{file_sha256(path)[:12]}…, recorded {found.sha256[:12]}…). {again}"
            )
        indexes[split] = TextIndex(path, again)
    if len(indexes) == len(splits):
        return IndexedDocuments(splits, indexes), indexes, ()
    return Documents(splits), {}, tuple(notes)

"""Making the index of a split: in passes over parts that fit into memory, merged at the end."""

import heapq
import itertools
import os
import sqlite3
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlm.asking.artefacts import IndexRecord
from mlm.asking.terms import lowered, passages_of
from mlm.asking.text_index import TABLES, encoded
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.samples.manifests import Manifest, shards_remedy
from mlm.samples.split_samples import read_samples
from mlm.tokenizer.encoding import Encoder

#: A part is written to disk at so many postings, or terms.
_PART_POSTINGS, _PART_TERMS = 8_000_000, 1_000_000
#: A block of the index ends at so many postings, or terms.
_BLOCK_POSTINGS, _BLOCK_TERMS = 65_536, 4096
#: Documents that are read at a time.
_READ = 1024


@dataclass(frozen=True)
class IndexSources:
    """What of a split an index is made from: its documents and files; `root` is what the manifest's
    paths are relative to."""

    corpus: SplitDocuments
    manifest: Path
    tokenizer: Path
    root: str | Path


def build_index(split: str, sources: IndexSources, path: str | os.PathLike) -> IndexRecord:
    """Write the index of a split to `path`; its record, which the caller writes.

    The bytes depend on the corpus, the shards and the version of SQLite alone. Memory is bounded by
    the constants above, whatever the size of the corpus; what waits to be merged takes about half
    the text's size of temporary disk beside `path`. Raises MlmError where a file is damaged, or the
    shards hold other documents than the corpus.
    """
    manifest = Manifest.read(sources.manifest)
    corpus_sha256 = sources.corpus.sha256()
    if manifest.corpus_sha256 != corpus_sha256:
        raise MlmError(
            f"{sources.corpus.named}: is not the text that the {split} shards were made from. "
            f"{shards_remedy(manifest)}"
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(path) as temporary,
        tempfile.TemporaryDirectory(prefix=".index-", dir=path.parent) as parts,
    ):
        temporary.unlink(missing_ok=True)
        spilled = _Spilled(Path(parts))
        passages = spilled.add_all(split, sources.corpus)
        file = _new_file(temporary)
        try:
            terms, postings = _write_terms(file, spilled)
            file.execute("INSERT INTO documents VALUES (?)", (encoded(passages)[0],))
            packed = _write_packed(file, manifest, sources)
            file.commit()
        finally:
            file.close()
        if packed != len(passages):
            raise MlmError(
                f"{sources.manifest}: its shards hold {packed:,} documents, {sources.corpus.named} "
                f"has {len(passages):,}. {shards_remedy(manifest)}"
            )
    return IndexRecord(
        split=split,
        corpus_sha256=corpus_sha256,
        manifest_sha256=file_sha256(sources.manifest),
        documents=len(passages),
        passages=int(passages.sum()),
        terms=terms,
        postings=postings,
        num_bytes=path.stat().st_size,
        sha256=file_sha256(path),
    )


def _new_file(path: Path) -> sqlite3.Connection:
    """An empty index. It is written once and renamed when whole: no journal is needed."""
    file = sqlite3.connect(path, isolation_level=None)
    for setting in ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "cache_size=-8000"):
        file.execute(f"PRAGMA {setting}")
    file.execute("BEGIN")
    for statement in TABLES.strip().split(";\n"):
        file.execute(statement.rstrip(";"))
    return file


class _Spilled:
    """Terms and their passages, in parts on disk, each sorted by term and passage.

    A part is three files: its terms, a line each; how many passages each has, int64; the
    passages, uint32.
    """

    def __init__(self, directory: Path):
        self._directory, self.parts = directory, 0
        self._start()

    def _start(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        self._terms, self._sizes, self._passages = array("I"), array("I"), array("I")

    def add_all(self, split: str, corpus: SplitDocuments) -> np.ndarray:
        """Add the documents of a split; how many passages each has."""
        counts, passage = array("I"), 0
        progress = Progress(f"indexing {split}", len(corpus), "documents")
        for rows in corpus.batches(["text"], _READ):
            for text in lowered(rows.column("text")).to_pylist():
                before = passage
                for terms in passages_of(text):
                    self._add(passage, terms)
                    passage += 1
                counts.append(passage - before)
            progress.to(len(counts))
        self._spill()
        return np.array(counts, np.int64)

    def _add(self, passage: int, terms: set[str]) -> None:
        self._terms.extend(map(self._numbers.__getitem__, terms))
        self._sizes.append(len(terms))
        self._passages.append(passage)
        if len(self._terms) >= _PART_POSTINGS or len(self._numbers) >= _PART_TERMS:
            self._spill()

    def _spill(self) -> None:
        if not self._terms:
            return
        # In the order of their bytes, which no locale or hash decides.
        named = sorted((term.encode(), number) for term, number in self._numbers.items())
        rank = np.empty(len(named), np.uint32)
        rank[[number for _, number in named]] = np.arange(len(named), dtype=np.uint32)
        ranks = rank[np.frombuffer(self._terms, np.uint32)]
        sizes = np.frombuffer(self._sizes, np.uint32)
        passages = np.repeat(np.frombuffer(self._passages, np.uint32), sizes)
        order = np.argsort(ranks, kind="stable")
        for name, content in (
            ("terms", b"".join(term + b"\n" for term, _ in named)),
            ("counts", np.bincount(ranks, minlength=len(named)).astype(np.int64).tobytes()),
            ("passages", passages[order].tobytes()),
        ):
            self.file(name, self.parts).write_bytes(content)
        self.parts += 1
        self._start()

    def file(self, name: str, part: int) -> Path:
        return self._directory / f"{name}-{part}"


def _merged(spilled: _Spilled) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """Each term once, in order, with the parts that have it and how many passages each has."""

    def of_part(part: int) -> Iterator[tuple[bytes, int, int]]:
        counts = np.memmap(spilled.file("counts", part), np.int64, "r")
        with spilled.file("terms", part).open("rb") as lines:
            for place, line in enumerate(lines):
                yield line[:-1], part, int(counts[place])

    together = heapq.merge(*map(of_part, range(spilled.parts)))
    for term, found in itertools.groupby(together, key=lambda one: one[0]):
        yield term, [(part, count) for _, part, count in found]


def _write_terms(file: sqlite3.Connection, spilled: _Spilled) -> tuple[int, int]:
    """Write all blocks; how many terms and postings there are."""
    passages = [
        np.memmap(spilled.file("passages", part), np.uint32, "r") for part in range(spilled.parts)
    ]
    at = [0] * spilled.parts
    number = total_terms = total = 0
    terms: list[bytes] = []
    held: list[list[tuple[int, int]]] = [[] for _ in passages]
    size = 0

    def write_block() -> None:
        places, values = [], []
        for part, counted in enumerate(held):
            if counted:
                places.append(np.repeat(*np.array(counted).T))
                values.append(passages[part][at[part] : at[part] + len(places[-1])])
                at[part] += len(places[-1])
        place, value = np.concatenate(places), np.concatenate(values).astype(np.int64)
        # Parts are in the order of passages, and so is what each of them has of a term.
        order = np.argsort(place, kind="stable")
        place, value = place[order], value[order]
        counts = np.bincount(place, minlength=len(terms))
        steps = np.diff(value, prepend=0) - 1
        firsts = np.cumsum(counts) - counts
        steps[firsts] = value[firsts]
        data, sizes = encoded(steps)
        sizes = np.add.reduceat(sizes, firsts)
        file.execute(
            "INSERT INTO block VALUES (?, ?, ?, ?, ?)",
            (
                number,
                terms[0],
                b"\n" + b"".join(term + b"\n" for term in terms),
                encoded(counts)[0],
                encoded(sizes)[0],
            ),
        )
        file.execute("INSERT INTO postings VALUES (?, ?)", (number, data))

    for term, found in _merged(spilled):
        for part, count in found:
            held[part].append((len(terms), count))
            size += count
        terms.append(term)
        if size >= _BLOCK_POSTINGS or len(terms) >= _BLOCK_TERMS:
            write_block()
            number, total_terms, total = number + 1, total_terms + len(terms), total + size
            terms, held, size = [], [[] for _ in passages], 0
    if terms:
        write_block()
        total_terms, total = total_terms + len(terms), total + size
    # Made at the end: its pages then stand together.
    file.execute("CREATE INDEX first ON block (first)")
    return total_terms, total


def _write_packed(file: sqlite3.Connection, manifest: Manifest, sources: IndexSources) -> int:
    """Write how many tokens the documents of each shard have; how many documents there are."""
    special, documents = Encoder.load(sources.tokenizer).special_ids, 0
    for shard, entry in enumerate(manifest.shards):
        alone = replace(manifest, shards=(entry,), num_samples=entry.num_samples, group_by=None)
        begins, tokens = [], 0
        for samples in read_samples(alone, sources.root):
            stream = samples.input_ids[samples.attention_mask]
            begins.append(np.flatnonzero(stream == special.cls) + tokens)
            tokens += len(stream)
        found = np.concatenate([*begins, [tokens]])
        if special.cls == special.sep:
            found = np.concatenate([found[:-1:2], [tokens]])
        counts = np.diff(found)
        documents += len(counts)
        file.execute("INSERT INTO packed VALUES (?, ?)", (shard, encoded(counts)[0]))
    return documents

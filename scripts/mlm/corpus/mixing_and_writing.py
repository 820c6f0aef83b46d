"""A split's Parquet files: which documents they hold, in what order, and the writing of them.

With weight 2.3 in a mix (`corpus.mix`), every document of train is used twice, and three in ten a
third time: of every 1,024 in a row, those with the lowest keyed hashes. Held-out splits have each
once.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.config.corpus import UNGROUPED
from mlm.corpus.artefacts import CorpusFile, document_range, file_name
from mlm.corpus.decontamination import HeldOutRuns
from mlm.corpus.groups_and_splits import group_ids, keyed_hash
from mlm.corpus.spooling import BATCH_BYTES, BATCH_DOCUMENTS, Spool, SpooledCorpus
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError

_BLOCK = 1024


def chosen_documents(total: int, share: Fraction, key: int) -> np.ndarray:
    """Return which of `total` documents are in a share of them, bool [total]."""
    chosen = np.zeros(total, bool)
    for start in range(0, total, _BLOCK):
        end = min(start + _BLOCK, total)
        order = np.argsort(_hashes(np.arange(start, end), key), kind="stable")
        count = math.floor(end * share) - math.floor(start * share)
        chosen[start + order[:count]] = True
    return chosen


def _hashes(numbers: np.ndarray, key: int) -> np.ndarray:
    """Return 64 bits for each of `numbers`, by SplitMix64 (Steele et al., 2014)."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Segment:
    """So many `documents` of a spool, written one after the other: all that remain, or those that
    `chosen`, bool, says."""

    spool: Spool
    documents: int
    chosen: np.ndarray | None = None


def segments(corpus: SpooledCorpus, split: str) -> list[Segment]:
    """Return what is written of `split`, in order; of a mix, epoch by epoch. Raises MlmError for a
    source of which none is taken."""
    spools = [(spool, len(corpus.remaining(spool))) for spool in corpus.spools_of(split)]
    sources = [part.mixed for part in corpus.parts if part.mixed]
    if split != "train" or not sources:
        return [Segment(spool, count) for spool, count in spools]
    totals, written = {source.name: 0 for source in sources}, []
    for source, (_, count) in zip(sources, spools, strict=True):
        totals[source.name] += count
    for epoch in range(max(math.ceil(source.weight) for source in sources)):
        passed, chosen = dict.fromkeys(totals, 0), {}
        for source, (spool, count) in zip(sources, spools, strict=True):
            share = min(Fraction(repr(source.weight)) - epoch, Fraction(1))
            if share == 1:
                written.append(Segment(spool, count))
            elif share > 0:
                if source.name not in chosen:
                    key = keyed_hash(source.seed, f"{source.name} {epoch}".encode())
                    chosen[source.name] = chosen_documents(totals[source.name], share, key)
                of_spool = chosen[source.name][passed[source.name] :][:count]
                written.append(Segment(spool, int(of_spool.sum()), of_spool))
            passed[source.name] += count
    taken = {sources[segment.spool.part].name for segment in written if segment.documents}
    if unused := sorted(totals.keys() - taken):
        problems = "\n".join(
            f"corpus.mix.{name}: none of its {totals[name]:,} documents of train that remain is "
            "taken. Raise its weight, look at its filters (of equal documents, that of the first "
            "source by name is kept), or leave the source out"
            for name in unused
        )
        raise MlmError(f"A source of the corpus gives nothing.\n{problems}")
    return written


def written_batches(
    corpus: SpooledCorpus, order: Sequence[Segment], wanted: range
) -> Iterator[pa.RecordBatch]:
    """Yield the documents `wanted` of those in `order`."""
    start = 0
    for segment in order:
        first, last = (max(edge - start, 0) for edge in (wanted.start, wanted.stop))
        if first < min(last, segment.documents):
            indices = corpus.remaining(segment.spool)
            indices = indices if segment.chosen is None else indices[segment.chosen]
            yield from segment.spool.read(["text", "group"], indices[first:last])
        start += segment.documents


@dataclass(frozen=True)
class WrittenFile:
    """One of a split's Parquet files, the size of its text, and the `group_ids` in it."""

    file: CorpusFile
    bytes: int
    characters: int
    words: int
    groups: set[int]


def write_file(
    corpus: SpooledCorpus,
    order: Sequence[Segment],
    runs: HeldOutRuns | None,
    share: tuple[int, int],
    path: Path,
) -> WrittenFile:
    """Write file number `share[0]` of `share[1]` of the documents in `order` to `path`. `runs` are
    those of held-out splits, for train."""
    split, sizes = order[0].spool.split, np.zeros(3, np.int64)
    wanted = document_range(sum(segment.documents for segment in order), *share)
    with closing(CorpusWriter(path, corpus.group_by, wanted.start)) as writer:
        for batch in written_batches(corpus, order, wanted):
            texts = batch.column("text").to_pylist()
            size = sum(len(text.encode()) for text in texts)
            words = sum(len(text.split()) for text in texts)
            sizes += np.array([size, sum(map(len, texts)), words])
            if runs:
                runs.look_into(texts)
            writer.write(batch)
    name, size = file_name(split, *share), path.stat().st_size
    file = CorpusFile(name, len(wanted), size, file_sha256(path))
    size, characters, words = sizes.tolist()
    return WrittenFile(file, size, characters, words, writer.groups)


class CorpusWriter:
    """One of a split's Parquet files: columns `text` and `group`, the name of a document's group,
    or its number from `first` on if documents are `UNGROUPED`. The sizes of batches change no byte.
    `groups` are the `group_ids` of the names."""

    def __init__(self, path: Path, group_by: str, first: int):
        self._next, self._ungrouped = first, group_by == UNGROUPED
        self.groups: set[int] = set()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = 0
        kind = pa.int64() if self._ungrouped else pa.string()
        self._schema = pa.schema([("text", pa.string()), ("group", kind)])
        self._writer = pq.ParquetWriter(
            path,
            self._schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
            # A shard reads its own pages alone, and checks those.
            write_page_checksum=True,
        )
        self._writer.add_key_value_metadata({"group_by": group_by})

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the documents of `batch`."""
        start, sizes = 0, pc.call_function("binary_length", [batch.column("text")])
        for row, size in enumerate(sizes.to_pylist()):
            # A longer document than that has a row group by itself.
            is_full = self._rows and self._size + size > BATCH_BYTES
            if is_full or self._rows == BATCH_DOCUMENTS:
                self._waiting.append(batch.slice(start, row - start))
                self._flush()
                start = row
            self._rows, self._size = self._rows + 1, self._size + size
        self._waiting.append(batch.slice(start))

    def _flush(self) -> None:
        # In one piece: where pages end would depend on the pieces.
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        texts, groups = table.column("text"), table.column("group")
        if self._ungrouped:
            groups = pa.array(range(self._next, self._next + len(table)), pa.int64())
        else:
            self.groups.update(group_ids(groups.unique()).tolist())
        self._next += len(table)
        written = pa.table([texts, groups], schema=self._schema)
        self._writer.write_table(written, row_group_size=len(table))
        self._waiting, self._rows, self._size = [], 0, 0
        # Memory goes back to the system.
        pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Write what is left, and finish the file."""
        if self._rows:
            self._flush()
        self._writer.close()

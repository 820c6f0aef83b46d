"""A split's Parquet files, and what they hold."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.config.corpus import UNGROUPED
from mlm.corpus.artefacts import CorpusFile, document_range, file_name
from mlm.corpus.decontamination import HeldOutRuns
from mlm.corpus.document_groups import group_ids
from mlm.corpus.mix import Segment, written_batches
from mlm.corpus.spooling import BATCH_BYTES, BATCH_DOCUMENTS, SpooledCorpus
from mlm.foundations.digests import file_sha256


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

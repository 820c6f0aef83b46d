"""One of a split's Parquet files, of the documents that are kept, in memory bounded by a batch."""

import functools
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.config.corpus import UNGROUPED
from mlm.corpus.artefacts import CorpusFile, WrittenFile, document_range, file_name
from mlm.corpus.document_groups import group_ids
from mlm.corpus.split_descriptions import refuse_empty_splits
from mlm.corpus.spooling import (
    BATCH_BYTES,
    BATCH_DOCUMENTS,
    SpooledCorpus,
    in_pieces,
    numpy_array,
)
from mlm.corpus.word_overlap import HeldOutRuns
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError

#: Row groups after which memory goes back to the system.
_RELEASED = 4


def write_file(
    corpus: SpooledCorpus,
    split: str,
    share: int,
    shares: int,
    held_out: Mapping[str, Sequence[Path]],
    record: Path,
) -> None:
    """Write Parquet file `share` of `shares` of `split`, its `record`, and beside it its groups
    and, with records of `held_out` splits for train, the runs of words that they share. Raises
    MlmError if a split has fewer documents than files, or a file is damaged."""
    refuse_empty_splits(corpus)
    documents = sum(segment.documents for segment in corpus.segments(split))
    if documents < shares:
        raise MlmError(
            f"{split}: {documents} documents cannot fill {shares} files. Set corpus.count.{split} "
            f"to at most {documents}"
        )
    runs = HeldOutRuns(held_out.values()) if held_out else None
    wanted, sizes = document_range(documents, share, shares), []
    with (
        replacing(record.with_suffix(".parquet")) as path,
        replacing(record.with_suffix(".groups")) as groups,
        replacing(record.with_suffix(".shared")) as shared,
    ):
        with closing(CorpusWriter(path, corpus.group_by, wanted.start)) as writer:
            for batch in corpus.batches(split, wanted):
                for texts in in_pieces(batch.column("text")):
                    strings = texts.to_pylist()
                    sizes.append((pc.sum(pc.binary_length(texts)).as_py(), *_lengths(strings)))
                    if runs:
                        runs.look_into(strings)
                writer.write(batch)
        groups.write_bytes(np.array(list(writer.groups), np.int64).tobytes())
        shared.write_bytes(runs.shared().tobytes() if runs else b"")
        name = file_name(split, share, shares)
        file = CorpusFile(name, len(wanted), path.stat().st_size, file_sha256(path))
    WrittenFile(file, *map(sum, zip(*sizes, strict=True))).write(record)


def _lengths(texts: Sequence[str]) -> tuple[int, int]:
    """Return the number of characters and of words (as `str.split` counts them) of `texts`, none
    of them empty."""
    text = "\n".join(texts)
    if text.isascii():
        characters = np.frombuffer(text.encode("ascii"), np.uint8)
    else:
        characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    spaces = _spaces().take(characters)
    words = np.count_nonzero(spaces[:-1] > spaces[1:]) + (not spaces[0])
    return len(text) - len(texts) + 1, int(words)


@functools.cache
def _spaces() -> np.ndarray:
    """Return for every code point whether it is white space."""
    return np.array([chr(code).isspace() for code in range(sys.maxunicode + 1)])


class CorpusWriter:
    """One of a split's Parquet files: columns `text` and `group`, the name of a document's group,
    or its number from `first` on if documents are `UNGROUPED`. The sizes of batches change no byte.
    `groups` are the `group_ids` of the names."""

    def __init__(self, path: Path, group_by: str, first: int = 0):
        self._next, self._ungrouped = first, group_by == UNGROUPED
        self.groups: set[int] = set()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = self._row_groups = 0
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
        ends = np.cumsum(np.from_dlpack(pc.binary_length(batch.column("text"))), dtype=np.int64)
        offsets, start = np.concatenate([[0], ends]), 0
        while start < len(batch):
            room = int(offsets[start]) + BATCH_BYTES - self._size
            stop = int(np.searchsorted(offsets, room, "right")) - 1
            # A longer document than that has a row group by itself.
            stop = min(max(stop, start + (not self._rows)), start + BATCH_DOCUMENTS - self._rows)
            self._waiting.append(batch.slice(start, stop - start))
            self._rows += stop - start
            self._size += int(offsets[stop] - offsets[start])
            start = stop
            if start < len(batch):
                self._flush()

    def _flush(self) -> None:
        # In one piece: where pages end would depend on the pieces.
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        texts, groups = table.column("text"), table.column("group")
        if self._ungrouped:
            groups = numpy_array(np.arange(self._next, self._next + len(table)))
        else:
            self.groups.update(group_ids(groups.unique()).tolist())
        self._next += len(table)
        written = pa.table([texts, groups], schema=self._schema)
        self._writer.write_table(written, row_group_size=len(table))
        self._waiting, self._rows, self._size = [], 0, 0
        self._row_groups += 1
        if self._row_groups % _RELEASED == 0:
            pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Write what is left, and finish the file."""
        if self._rows:
            self._flush()
        self._writer.close()
        pa.default_memory_pool().release_unused()

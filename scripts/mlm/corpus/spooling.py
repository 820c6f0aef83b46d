"""Documents on disk in bounded batches: a split's spool while it is filtered, its parquet after.

A batch holds at most 8,192 documents and about 8 MiB (one document more than that, if it is
longer), so that neither writing nor reading a split needs more memory than a batch.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.corpus.groups import OWN

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
_SPOOLED = pa.schema([("text", pa.string()), ("words", pa.int32()), ("group", pa.string())])


class Spool:
    """A split's documents on disk, in order, before duplicates and leaks are known."""

    def __init__(self, path: Path):
        self.path = path
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(path, _SPOOLED, options=options)
        self._texts: list[bytes] = []
        self._words: list[int] = []
        self._groups: list[str | None] = []
        self._size = 0

    def add(self, document: bytes, words: int, group: str | None) -> None:
        """Append a document (its UTF-8 bytes), its number of words and its group's name."""
        if self._texts and self._size + len(document) > BATCH_BYTES:
            self._flush()
        self._texts.append(document)
        self._words.append(words)
        self._groups.append(group)
        self._size += len(document)
        if len(self._texts) == BATCH_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            found = self._texts, self._words, self._groups
            columns = [pa.array(v, f.type) for v, f in zip(found, _SPOOLED, strict=True)]
            self._writer.write_batch(pa.record_batch(columns, schema=_SPOOLED))
        self._texts, self._words, self._groups, self._size = [], [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before `batches`."""
        self._flush()
        self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The documents again, batch by batch: columns `text`, `words` and `group`."""
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


class CorpusWriter:
    """A split's parquet file: columns `text` and `group`, one document a row, one batch a row
    group.

    `group_by` says what the groups are called, and stands in the file's metadata. `group` is the
    name of the document's group, a string; where each document is a group of its own
    (`mlm.corpus.groups.OWN`), its number in the split, int64. The bytes depend on the
    documents and on pyarrow's version alone.
    """

    def __init__(self, path: Path, group_by: str):
        self._documents, self._own = 0, group_by == OWN
        self._names: set[str] = set()
        kind = pa.int64() if self._own else pa.string()
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

    @property
    def groups(self) -> int:
        """How many different groups were written."""
        return self._documents if self._own else len(self._names)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the documents of `batch` as a row group of their own."""
        if not batch.num_rows:
            return
        groups, first = batch.column("group"), self._documents
        self._documents += batch.num_rows
        if self._own:
            groups = pa.array(range(first, self._documents), pa.int64())
        else:
            self._names.update(groups.unique().to_pylist())
        table = pa.table([batch.column("text"), groups], schema=self._schema)
        self._writer.write_table(table, row_group_size=batch.num_rows)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def batch_sizes(batch: pa.RecordBatch) -> tuple[int, int, int]:
    """Bytes (UTF-8), characters (code points) and words of the documents of `batch`."""
    if not batch.num_rows:
        return 0, 0, 0
    text, words = batch.column("text"), batch.column("words")
    counted = pc.binary_length(text), pc.utf8_length(text), words
    return tuple(pc.sum(column.cast(pa.int64())).as_py() for column in counted)

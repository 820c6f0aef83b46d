"""Documents on disk in bounded batches: a split's spool while it is filtered, its parquet after.

A batch holds at most 8,192 documents and about 8 MiB (one document more than that, if it is
longer), so that neither writing nor reading a split needs more memory than a batch.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
_SPOOLED = pa.schema([("text", pa.string()), ("words", pa.int32())])
_WRITTEN = pa.schema([("text", pa.string())])


class Spool:
    """A split's documents on disk, in order, before duplicates and leaks are known."""

    def __init__(self, path: Path):
        self.path = path
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(path, _SPOOLED, options=options)
        self._texts: list[bytes] = []
        self._words: list[int] = []
        self._size = 0

    def add(self, document: bytes, words: int) -> None:
        """Append a document (its UTF-8 bytes) and its number of words."""
        if self._texts and self._size + len(document) > BATCH_BYTES:
            self._flush()
        self._texts.append(document)
        self._words.append(words)
        self._size += len(document)
        if len(self._texts) == BATCH_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            columns = [pa.array(self._texts, pa.string()), pa.array(self._words, pa.int32())]
            self._writer.write_batch(pa.record_batch(columns, schema=_SPOOLED))
        self._texts, self._words, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before `batches`."""
        self._flush()
        self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The documents again, batch by batch: columns `text` and `words`."""
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


class CorpusWriter:
    """A split's parquet file: column `text`, one document a row, one batch a row group.

    The bytes depend on the documents and on pyarrow's version alone.
    """

    def __init__(self, path: Path):
        self._writer = pq.ParquetWriter(
            path,
            _WRITTEN,
            compression="zstd",
            compression_level=3,
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the documents of `batch` as a row group of their own."""
        if batch.num_rows:
            self._writer.write_table(
                pa.table({"text": batch.column("text")}), row_group_size=batch.num_rows
            )

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

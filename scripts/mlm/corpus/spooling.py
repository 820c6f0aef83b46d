"""Documents on disk in bounded batches, in order, before duplicates and leaks are known.

A batch holds at most 8,192 documents and about 8 MiB (one document more than that, if it is
longer), so that neither writing nor reading needs more memory than a batch.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.corpus.deduplication import KEPT
from mlm.corpus.text_batches import mask_array, text_array, word_counts

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
_SPOOLED = pa.schema([("text", pa.string()), ("words", pa.int32()), ("group", pa.string())])


class Spool:
    """Documents on their way to a file in batches; `rows` has the size of each batch written.

    `on_batch` is told the documents (their UTF-8 bytes) of each.
    """

    def __init__(self, path: Path, on_batch: Callable[[list[bytes]], None]):
        self.path, self.rows = path, []
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, _SPOOLED, options=options)
        self._on_batch = on_batch
        self._texts: list[bytes] = []
        self._groups: list[str | None] = []
        self._size = 0

    def add(self, document: bytes, group: str | None) -> None:
        """Append a document (its UTF-8 bytes, not empty) and its group's name."""
        if self._texts and self._size + len(document) > BATCH_BYTES:
            self._flush()
        self._texts.append(document)
        self._groups.append(group)
        self._size += len(document)
        if len(self._texts) == BATCH_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            groups = [None if g is None else g.encode("utf-8") for g in self._groups]
            texts = text_array(self._texts)
            columns = [texts, word_counts(texts), text_array(groups)]
            self._writer.write_batch(pa.record_batch(columns, schema=_SPOOLED))
            self.rows.append(len(self._texts))
            self._on_batch(self._texts)
        self._texts, self._groups, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before the file is read."""
        self._flush()
        self._writer.close()


def kept_batches(
    path: Path, rows: Sequence[int], verdicts: np.ndarray, wanted: range
) -> Iterator[pa.RecordBatch]:
    """Columns `text`, `words` and `group` of spooled documents that are kept, batch by batch.

    Of all that `verdicts` keep, one byte a document, those with the numbers `wanted`. `rows` are
    the sizes of the batches in the spool `path`; one with none of them is not read.
    """
    start = kept = 0
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number, size in enumerate(rows):
            mask = verdicts[start : start + size] == KEPT
            count = int(mask.sum())
            first, last = max(wanted.start - kept, 0), min(wanted.stop - kept, count)
            if first < last:
                batch = reader.get_batch(number)
                if count < size:
                    batch = batch.filter(mask_array(mask))
                yield batch.slice(first, last - first)
            start, kept = start + size, kept + count

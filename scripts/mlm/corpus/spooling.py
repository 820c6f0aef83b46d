"""Documents on disk in bounded batches, in order, before duplicates and leaks are known.

A batch holds at most 8,192 documents and about 8 MiB (one document more than that, if it is
longer), so that neither writing nor reading needs more memory than a batch.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.corpus.deduplication import KEPT

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
            counts = np.array([len(text.decode().split()) for text in self._texts], np.int32)
            words = pa.Array.from_buffers(pa.int32(), len(counts), [None, pa.py_buffer(counts)])
            columns = [_text_array(self._texts), words, _text_array(groups)]
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
    the sizes of the batches in the spool `path`; a batch without any of them is not read.
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
                    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
                    batch = batch.filter(pa.Array.from_buffers(pa.bool_(), size, [None, bits]))
                yield batch.slice(first, last - first)
            start, kept = start + size, kept + count


def _text_array(texts: Sequence[bytes | None]) -> pa.Array:
    # Put together from buffers: `pyarrow.array` of a list imports pandas, which takes longer than
    # the job of a small part.
    there = np.array([text is not None for text in texts], bool)
    if not there.any():
        return pa.nulls(len(texts), pa.string())
    ends = np.cumsum([0, *(len(text or b"") for text in texts)], dtype=np.int32)
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    data = pa.py_buffer(b"".join(filter(None, texts)))
    return pa.Array.from_buffers(pa.string(), len(texts), [valid, pa.py_buffer(ends), data])

"""The documents of a split, in one Parquet file or several, read as one sequence."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mlm.corpus.artefacts import CorpusSplit, joint_sha256
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, reading, remedy

#: Documents that are taken together where not all are read.
_TOGETHER = 8192


@dataclass(frozen=True)
class EvenShare:
    """Stretches of documents at equal distances, and about how many bytes of text they have."""

    stretches: Sequence[range]
    bytes: float
    is_all: bool


class SplitDocuments:
    """The documents of a split, numbered from 0, in Parquet `files` of so many each, opened if
    needed; `bytes` is the size of all texts. Whatever is damaged raises MlmError."""

    def __init__(self, files: Sequence[tuple[Path, int]], size: int = 0):
        self.paths, self.bytes = [Path(path) for path, _ in files], size
        self._ends = list(accumulate(count for _, count in files))

    @classmethod
    def described(cls, record: str | os.PathLike) -> "SplitDocuments":
        """Return the documents of the split that `results/corpus/{split}.json` describes."""
        split = CorpusSplit.read(record)
        files = [(Path(record).with_name(file.name), file.documents) for file in split.files]
        return cls(files, split.bytes)

    def __len__(self) -> int:
        return self._ends[-1]

    @property
    def named(self) -> str:
        """The files, for messages."""
        more = len(self.paths) - 1
        return f"{self.paths[0]}{f' and {more} more' if more else ''}"

    def evenly(self, most: int) -> EvenShare:
        """Return stretches with about `most` bytes of text, whatever the files; or all."""
        several = -(-len(self) // _TOGETHER)
        wanted = -(-several * most // self.bytes) if self.bytes else several
        if wanted >= several:
            return EvenShare([range(len(self))], self.bytes, True)
        firsts = (number * several // wanted * _TOGETHER for number in range(wanted))
        stretches = [range(first, min(first + _TOGETHER, len(self))) for first in firsts]
        return EvenShare(stretches, self.bytes * wanted / several, False)

    def sha256(self) -> str:
        """Return `CorpusSplit.sha256` of the files as they are now."""
        return joint_sha256(list(map(file_sha256, self.paths)))

    def batches(
        self, columns: Sequence[str], size: int, documents: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield `columns` of `documents` (None: all) in order, at most `size` at a time."""
        documents = range(len(self)) if documents is None else documents
        for path, end, start in zip(self.paths, self._ends, [0, *self._ends], strict=False):
            if end <= documents.start or start >= documents.stop:
                continue
            with (
                reading(path, "parquet"),
                pq.ParquetFile(path, page_checksum_verification=True) as file,
            ):
                if missing := set(columns).difference(file.schema_arrow.names):
                    raise MlmError(f"{path}: no column {missing.pop()!r}. {remedy(path)}")
                if file.metadata.num_rows != end - start:
                    raise ValueError(f"{file.metadata.num_rows} rows, {end - start} recorded")
                for number in range(file.num_row_groups):
                    row, start = start, start + file.metadata.row_group(number).num_rows
                    if start <= documents.start or row >= documents.stop:
                        continue
                    # One by one: pyarrow holds the buffers of all groups of a call until its end.
                    for rows in file.iter_batches(size, [number], list(columns)):
                        first = max(documents.start - row, 0)
                        last = min(documents.stop - row, len(rows))
                        if first < last:
                            # That texts are UTF-8, too.
                            rows.validate(full=True)
                            yield rows.slice(first, last - first)
                        row += len(rows)

    def texts(self, batch: int = 1000, share: EvenShare | None = None) -> Iterator[list[str]]:
        """Yield all texts in order, or those of `share`, at most `batch` at a time."""
        for stretch in share.stretches if share else [range(len(self))]:
            for rows in self.batches(["text"], batch, stretch):
                yield rows.column("text").to_pylist()

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of all documents, in memory."""
        # `read_table` imports pandas.
        return pa.chunked_array([rows.column(name) for rows in self.batches([name], _TOGETHER)])

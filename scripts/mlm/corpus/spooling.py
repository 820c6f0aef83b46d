"""Documents on disk in order, in batches that bound memory, and those of them that passes keep."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.corpus.artefacts import NOTHING, PassRecord, ReadPart, TakenByRule, add_taken
from mlm.corpus.buckets import BucketWriter
from mlm.corpus.deduplication import KEPT, PRECEDENCE, REASONS, Numbering, write_digests
from mlm.corpus.mix import Segment, segments
from mlm.foundations.artefacts import check_outputs

# Arrow's own allocator keeps more of what was freed: a fifth of the memory of a corpus of 200 MB.
pa.set_memory_pool(pa.system_memory_pool())

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
_PIECE = 1 << 18
_SPOOLED = pa.schema([("text", pa.string()), ("group", pa.string())])


class Spool:
    """Writes the documents of `split`, in batches of sizes `rows`, and their digests."""

    def __init__(self, path: Path, split: str, digests: BucketWriter):
        self.rows: list[int] = []
        self._split, self._digests = split, digests
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, _SPOOLED, options=options)
        self._texts: list[bytes] = []
        self._groups: list[bytes] = []
        self._size = 0

    def add(self, document: bytes, group: str | None) -> None:
        """Append a document (its UTF-8 bytes) and its group's name."""
        if self._size + len(document) > BATCH_BYTES or len(self._texts) == BATCH_DOCUMENTS:
            self._flush()
        self._texts.append(document)
        if group is not None:
            self._groups.append(group.encode("utf-8"))
        self._size += len(document)

    def _flush(self) -> None:
        if texts := self._texts:
            # Either all documents of a spool have a group, or none has.
            groups = (
                _string_array(self._groups) if self._groups else pa.nulls(len(texts), pa.string())
            )
            self._writer.write_batch(
                pa.record_batch([_string_array(texts), groups], schema=_SPOOLED)
            )
            write_digests(self._digests, self._split, sum(self.rows), texts)
            self.rows.append(len(texts))
        self._texts, self._groups, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before the file is read."""
        self._flush()
        self._writer.close()


def part_record(directory: Path, part: int) -> Path:
    """Return the path of the record of `part`, beside its documents by split and their digests."""
    return directory / f"read-{part:05d}.json"


class SpooledCorpus:
    """The documents of all parts, in order, without those that passes with the records `removed`
    removed; `near` describes the near-duplicates by split. Raises MlmError for damaged verdicts
    beside a record."""

    def __init__(self, removed: Iterable[str | Path]):
        paths = list(map(Path, removed))
        for path in paths:
            check_outputs(path, [path.with_suffix(".verdicts")])
        self._passes = {path.with_suffix(".verdicts"): PassRecord.read(path) for path in paths}
        parts = range(PassRecord.read(paths[0]).parts)
        self._records = [part_record(paths[0].parent, number) for number in parts]
        self.parts = list(map(ReadPart.read, self._records))
        self.numbering, self.group_by = Numbering(self.parts), self.parts[0].group_by
        records = self._passes.values()
        self.near = next((record.near for record in records if record.near is not None), None)
        self._decontaminated = [record.rules for record in records if record.rules is not None]
        self.is_decontaminated = bool(self._decontaminated)
        self.removed, self._checked = cache(self._removed), cache(self._checked_spool)

    def rules(self, split: str) -> dict[str, TakenByRule] | None:
        """Return what each rule took of `split`; None: no rule was on."""
        counts: dict[str, TakenByRule] = {}
        for part in self.parts:
            add_taken(counts, part.splits[split].rules)
        for taken in self._decontaminated:
            add_taken(counts, taken if split == "train" else dict.fromkeys(taken, NOTHING))
        return counts or None

    def _removed(self, split: str) -> np.ndarray:
        """Return how many documents of `split` passes removed, by REASONS: [parts, reasons]."""
        verdicts = (self._verdicts(part, split) for part in range(len(self.parts)))
        return np.stack([np.bincount(one, minlength=len(REASONS) + 1)[1:] for one in verdicts])

    def remaining(self, split: str) -> list[int]:
        """Return the number of documents of `split` in each part that no pass removed."""
        removed = self.removed(split).sum(axis=1)
        return (self.numbering.counts[PRECEDENCE.index(split)] - removed).tolist()

    def _verdicts(self, part: int, split: str) -> np.ndarray:
        """Return a byte for each document of `split` in `part`: KEPT, or why it is removed."""
        numbers = self.numbering.documents_of(split, part)
        verdicts = np.full(len(numbers), KEPT, np.uint8)
        for path, record in self._passes.items():
            first, stop = record.numbers
            if first <= numbers.start < numbers.stop <= stop:
                # A pass removes none that one before it has removed.
                offset = numbers.start - first
                verdicts |= np.fromfile(path, np.uint8, len(numbers), offset=offset)
        return verdicts

    def remaining_indices(self, part: int, split: str) -> np.ndarray:
        """Return the indices of the documents of `split` in `part` that no pass removed."""
        return np.flatnonzero(self._verdicts(part, split) == KEPT)

    def read(
        self, part: int, split: str, indices: np.ndarray | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the documents of `split` in `part` that have `indices` (sorted; None: all), batch
        by batch. Raises MlmError if they are not what was written."""
        sizes, start = self.parts[part].splits[split].batches, 0
        indices = np.arange(sum(sizes)) if indices is None else indices
        with pa.OSFile(self._checked(part, split)) as file, pa.ipc.open_file(file) as reader:
            for number, size in enumerate(sizes):
                first, last = np.searchsorted(indices, [start, start + size])
                if first < last:
                    batch = reader.get_batch(number)
                    some = numpy_array(indices[first:last] - start)
                    yield batch if last - first == size else batch.take(some)
                start += size

    def _checked_spool(self, part: int, split: str) -> str:
        record = self._records[part]
        check_outputs(record, [record.with_suffix(f".{split}")])
        return str(record.with_suffix(f".{split}"))

    def segments(self, split: str) -> list[Segment]:
        """Return what is written of `split`, in order."""
        return segments(self.parts, self.remaining(split), split)

    def batches(self, split: str, wanted: range) -> Iterator[pa.RecordBatch]:
        """Yield the documents `wanted` of those of `split` that are written."""
        start = 0
        for segment in self.segments(split):
            first, last = (max(edge - start, 0) for edge in (wanted.start, wanted.stop))
            if first < min(last, segment.documents):
                indices = self.remaining_indices(segment.part, split)
                indices = indices[segment.choice.mask()] if segment.choice else indices
                yield from self.read(segment.part, split, indices[first:last])
            start += segment.documents


def _string_array(texts: Sequence[bytes]) -> pa.Array:
    """Return an array of the strings with these UTF-8 bytes."""
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def numpy_array(values: np.ndarray) -> pa.Array:
    """Return `values` as an array of Arrow. `pyarrow.array` would import pandas: 50 MB."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def in_pieces(texts: pa.Array) -> Iterator[pa.Array]:
    """Yield `texts`, not empty, in slices of about what a processor's cache holds."""
    step = max(1, len(texts) * _PIECE // max(texts.nbytes, 1))
    return (texts[start : start + step] for start in range(0, len(texts), step))

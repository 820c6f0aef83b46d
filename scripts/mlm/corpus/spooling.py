"""Documents on disk in order, in batches that bound memory, and those of them that passes keep."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.corpus.artefacts import NOTHING, PassRecord, ReadPart, TakenByRule, add_taken
from mlm.corpus.deduplication import KEPT, Removed
from mlm.corpus.mix import Segment, segments
from mlm.foundations.artefacts import check_outputs

# Arrow's own allocator keeps more of what was freed: a fifth of the memory of a corpus of 200 MB.
pa.set_memory_pool(pa.system_memory_pool())

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
_PIECE = 1 << 18
_SPOOLED = pa.schema([("text", pa.string()), ("group", pa.string())])
#: In the place of a verdict: kept, but not in the share of a mix that is being written.
_NOT_CHOSEN = 255


class Spool:
    """Writes documents to a file in batches: `rows` has their sizes, and `on_batch` gets each."""

    def __init__(self, path: Path, on_batch: Callable[[list[bytes]], None]):
        self.rows: list[int] = []
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, _SPOOLED, options=options)
        self._on_batch = on_batch
        self._texts: list[bytes] = []
        self._groups: list[bytes] = []
        self._size = 0

    def add(self, document: bytes, group: str | None) -> None:
        """Append a document (its UTF-8 bytes, not empty) and its group's name; either all documents
        of a spool have one, or none has."""
        if self._texts and self._size + len(document) > BATCH_BYTES:
            self._flush()
        self._texts.append(document)
        if group is not None:
            self._groups.append(group.encode("utf-8"))
        self._size += len(document)
        if len(self._texts) == BATCH_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if texts := self._texts:
            groups = (
                string_array(self._groups) if self._groups else pa.nulls(len(texts), pa.string())
            )
            batch = pa.record_batch([string_array(texts), groups], schema=_SPOOLED)
            self._writer.write_batch(batch)
            self.rows.append(len(texts))
            self._on_batch(texts)
        self._texts, self._groups, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before the file is read."""
        self._flush()
        self._writer.close()


def part_record(directory: Path, part: int) -> Path:
    """Return the path of the record of `part`, beside which are its documents by split, and their
    digests."""
    return directory / f"read-{part:05d}.json"


class SpooledCorpus:
    """The documents of all parts, in order, without those that passes with the records `removed`
    removed; `near` describes the near-duplicates by split. Raises MlmError for damaged numbers
    beside a record."""

    def __init__(self, removed: Iterable[str | Path]):
        paths = list(map(Path, removed))
        records = list(map(PassRecord.read, paths))
        numbers = [path.with_suffix(".numbers") for path in paths]
        for path, beside in zip(paths, numbers, strict=True):
            check_outputs(path, [beside])
        parts = records[0].parts
        self._records = [part_record(paths[0].parent, number) for number in range(parts)]
        self.parts = list(map(ReadPart.read, self._records))
        self.group_by = self.parts[0].group_by
        self.removed = Removed(numbers, parts)
        self.near = next((record.near for record in records if record.near is not None), None)
        self._decontaminated = [record.rules for record in records if record.rules is not None]
        self.is_decontaminated = bool(self._decontaminated)

    def rules(self, split: str) -> dict[str, TakenByRule] | None:
        """Return what each rule took of `split`; None: no rule was on."""
        counts: dict[str, TakenByRule] = {}
        for part in self.parts:
            add_taken(counts, part.splits[split].rules or {})
        for taken in self._decontaminated:
            add_taken(counts, taken if split == "train" else dict.fromkeys(taken, NOTHING))
        return counts or None

    def remaining(self, split: str) -> list[int]:
        """Return the number of documents of `split` in each part that no pass removed."""
        removed = self.removed.counts(split).sum(axis=1).tolist()
        return [p.splits[split].documents - r for p, r in zip(self.parts, removed, strict=True)]

    def verdicts(self, part: int, split: str) -> np.ndarray:
        """Return a byte for each document of `split` in `part`: KEPT, or why it is removed."""
        return self.removed.verdicts(part, split, self.parts[part].splits[split].documents)

    def check(self, part: int, *splits: str) -> None:
        """Raise MlmError if a spool of `part` is not what was written."""
        record = self._records[part]
        check_outputs(record, [record.with_suffix(f".{split}") for split in splits])

    def read(
        self,
        part: int,
        split: str,
        verdicts: np.ndarray | None = None,
        wanted: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the documents of `split` in `part` that `verdicts` keep, of these those with the
        numbers `wanted` (None: all), batch by batch."""
        spooled, start, number = self.parts[part].splits[split], 0, 0
        verdicts = np.full(spooled.documents, KEPT, np.uint8) if verdicts is None else verdicts
        wanted = range(spooled.documents) if wanted is None else wanted
        path = str(self._records[part].with_suffix(f".{split}"))
        with pa.OSFile(path) as file, pa.ipc.open_file(file) as reader:
            for index, size in enumerate(spooled.batches):
                mask = verdicts[start : start + size] == KEPT
                count = int(mask.sum())
                first, last = max(wanted.start - number, 0), min(wanted.stop - number, count)
                if first < last:
                    batch = reader.get_batch(index)
                    if count < size:
                        batch = batch.filter(numpy_array(mask))
                    yield batch.slice(first, last - first)
                start, number = start + size, number + count

    def segments(self, split: str) -> list[Segment]:
        """Return what is written of `split`, in order."""
        return segments(self.parts, self.remaining(split), split)

    def batches(self, split: str, wanted: range) -> Iterator[pa.RecordBatch]:
        """Yield the documents `wanted` of those of `split` that are written. Raises MlmError if
        they are damaged."""
        start = 0
        for segment in self.segments(split):
            part, size = segment.part, segment.documents
            of_segment = range(max(wanted.start - start, 0), min(wanted.stop - start, size))
            start += size
            if of_segment:
                self.check(part, split)
                verdicts = self.verdicts(part, split)
                if segment.choice:
                    chosen = segment.choice.mask()
                    verdicts[np.flatnonzero(verdicts == KEPT)[~chosen]] = _NOT_CHOSEN
                yield from self.read(part, split, verdicts, of_segment)


def string_array(texts: Sequence[bytes]) -> pa.Array:
    """Return an array of the strings with these UTF-8 bytes."""
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def numpy_array(values: np.ndarray) -> pa.Array:
    """Return `values` as an array of Arrow. `pyarrow.array` would import pandas: 50 MB."""
    if values.dtype == bool:
        return numpy_array(values.view(np.uint8)).cast(pa.bool_())
    kind, buffers = pa.from_numpy_dtype(values.dtype), [None, pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def in_pieces(texts: pa.Array) -> Iterator[pa.Array]:
    """Yield `texts`, not empty, in slices of about what a processor's cache holds."""
    step = max(1, len(texts) * _PIECE // max(texts.nbytes, 1))
    return (texts[start : start + step] for start in range(0, len(texts), step))

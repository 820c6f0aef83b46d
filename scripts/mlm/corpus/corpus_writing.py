"""The kept documents of all parts, and their Parquet files, in memory bounded by a batch."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mlm.corpus.artefacts import ReadPart, RemovedDocuments, TakenByRule, add_taken
from mlm.corpus.deduplication import KEPT, Removed
from mlm.corpus.document_groups import OWN
from mlm.corpus.mix import Segment, segments
from mlm.corpus.part_reading import PartFiles
from mlm.corpus.spooling import BATCH_BYTES, BATCH_DOCUMENTS, mask_array
from mlm.foundations.artefacts import check_outputs

#: Digests of the names of groups; of 10^9, two share one with probability 10^-21.
_NAME = np.dtype("S16")
#: In the place of a verdict: kept, and not in the share of a mix that is being written.
NOT_CHOSEN = 255
#: Row groups after which memory goes back to the system.
_RELEASED = 4


class SpooledCorpus:
    """What the parts of a source left behind, in order, and which documents of it are left out.

    `removed` are the records of passes, beside those of the parts. `near` describes the
    near-duplicates of each split, if these were looked for, and `overlaps` says what
    decontamination took of each part. Raises MlmError if the numbers beside a record are damaged.
    """

    def __init__(self, removed: Sequence[Path]):
        records = list(map(RemovedDocuments.read, removed))
        numbers = [path.with_suffix(".numbers") for path in removed]
        for record, path in zip(removed, numbers, strict=True):
            check_outputs(record, [path])
        parts = records[0].parts
        self.files = [PartFiles.below(removed[0].parent, number) for number in range(parts)]
        self.parts = [ReadPart.read(file.record) for file in self.files]
        self.group_by = self.parts[0].group_by
        self.removed = Removed(numbers, parts)
        self.near = next((record.near for record in records if record.near is not None), None)
        self.overlaps = [record.rules for record in records if record.rules is not None]

    def rules(self, split: str) -> dict[str, TakenByRule] | None:
        """What each rule took of `split`; None: no rule was on."""
        counts: dict[str, TakenByRule] = {}
        of_train = self.overlaps if split == "train" else ()
        for taken in (*(part.splits[split].rules for part in self.parts), *of_train):
            add_taken(counts, taken or {})
        return counts or None

    def kept(self, split: str) -> list[int]:
        """How many documents of `split` are kept of each part."""
        removed = self.removed.counts(split).sum(axis=1).tolist()
        return [p.splits[split].documents - r for p, r in zip(self.parts, removed, strict=True)]

    def verdicts(self, part: int, split: str) -> np.ndarray:
        """One byte for each document of `split` in `part`: KEPT, or why it is left out."""
        return self.removed.verdicts(part, split, self.parts[part].splits[split].documents)

    def read(
        self,
        part: int,
        split: str,
        verdicts: np.ndarray | None = None,
        wanted: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The spooled documents of `split` in `part`, batch by batch.

        Those that `verdicts` keep, of these those with the numbers `wanted`; None: all.
        """
        read, start, number = self.parts[part].splits[split], 0, 0
        verdicts = np.full(read.documents, KEPT, np.uint8) if verdicts is None else verdicts
        wanted = range(read.documents) if wanted is None else wanted
        spool = str(self.files[part].spool(split))
        with pa.OSFile(spool) as file, pa.ipc.open_file(file) as reader:
            for place, size in enumerate(read.batches):
                mask = verdicts[start : start + size] == KEPT
                count = int(mask.sum())
                first, last = max(wanted.start - number, 0), min(wanted.stop - number, count)
                if first < last:
                    batch = reader.get_batch(place)
                    if count < size:
                        batch = batch.filter(mask_array(mask))
                    yield batch.slice(first, last - first)
                start, number = start + size, number + count

    def segments(self, split: str) -> list[Segment]:
        """What is written of `split`, in order."""
        return segments(self.parts, self.kept(split), split)

    def batches(self, split: str, wanted: range) -> Iterator[pa.RecordBatch]:
        """The documents `wanted` of those of `split` that are written; MlmError if damaged."""
        start = 0
        for segment in self.segments(split):
            number, size = segment.part, segment.documents
            own = range(max(wanted.start - start, 0), min(wanted.stop - start, size))
            start += size
            if own:
                check_outputs(self.files[number].record, [self.files[number].spool(split)])
                verdicts = self.verdicts(number, split)
                if segment.choice:
                    verdicts[np.flatnonzero(verdicts == KEPT)[~segment.choice.mask()]] = NOT_CHOSEN
                yield from self.read(number, split, verdicts, own)


def number_of_groups(paths: Iterable[Path]) -> int:
    """How many different groups `paths` name, which `CorpusWriter.close` wrote."""
    files = [np.memmap(path, _NAME, "r") for path in paths if path.stat().st_size]
    edges = [bytes([first]) for first in range(1, 256)]
    places = [np.concatenate([[0], np.searchsorted(f, edges), [len(f)]]) for f in files]
    count = 0
    for first in range(256 if files else 0):
        found = [f[at[first] : at[first + 1]] for f, at in zip(files, places, strict=True)]
        count += len(np.unique(np.concatenate(found)))
    return count


class CorpusWriter:
    """One of a split's Parquet files: columns `text` and `group`, one document a row.

    `group` is the name of the document's group, a string; if `group_by` is `groups.OWN`, its number
    in the split, int64, from `first` on. The bytes depend on the documents and on pyarrow's version
    alone, not on the batches that come in. `groups` gets a digest of each name, sorted.
    """

    def __init__(self, path: Path, group_by: str, first: int = 0, groups: Path | None = None):
        self._next, self._own = first, group_by == OWN
        self._names, self._groups = set(), groups
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = self._row_groups = 0
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

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the documents of `batch`."""
        offsets = np.frombuffer(batch.column("text").buffers()[1], np.int32)
        offsets = offsets[batch.column("text").offset :][: len(batch) + 1]
        start = 0
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
        if self._own:
            numbers = np.arange(self._next, self._next + len(table))
            # `pyarrow.array` would import pandas.
            groups = pa.Array.from_buffers(pa.int64(), len(table), [None, pa.py_buffer(numbers)])
        else:
            names = groups.unique().to_pylist()
            self._names.update(blake2b(n.encode(), digest_size=16).digest() for n in names)
        self._next += len(table)
        written = pa.table([texts, groups], schema=self._schema)
        self._writer.write_table(written, row_group_size=len(table))
        self._waiting, self._rows, self._size = [], 0, 0
        self._row_groups += 1
        if self._row_groups % _RELEASED == 0:
            pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Write what is left, and finish the files."""
        if self._rows:
            self._flush()
        self._writer.close()
        if self._groups:
            self._groups.write_bytes(np.sort(np.array(list(self._names), _NAME)).tobytes())
        pa.default_memory_pool().release_unused()

"""Documents on disk between reading and writing: an Arrow file for each split of each part."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.corpus.artefacts import NearDuplicatesOfSplit, ReadPart, TakenByRule, add_taken
from mlm.corpus.words_and_minhash import BANDS, HASHES, signatures_of

# Arrow's own allocator keeps more of what was freed: a fifth of the memory of a corpus of 200 MB.
pa.set_memory_pool(pa.system_memory_pool())

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 8 << 20
#: Documents whose digests are in memory together.
_TOGETHER = 1 << 23
_COLUMNS = ["text", "group", "digest", "signature", *(f"key{band}" for band in range(BANDS))]
#: Later splits lose a document that an earlier one has.
PRECEDENCE = ("test", "validation", "train")
KEPT, DUPLICATE, LEAKED, CONTAMINATED, NEAR_DUPLICATE, NEAR_LEAKED = range(6)
#: The name of each verdict but KEPT where documents are counted.
REASONS = ("duplicate", "leaked", "decontamination", "near_duplicate", "near_leaked")


class SpoolWriter:
    """Writes documents with their digests and, if it `signs`, MinHash signatures and the keys of
    their bands, in batches of the sizes `rows`."""

    def __init__(self, path: Path, signs: bool):
        self.rows: list[int] = []
        kinds = [*[pa.string()] * 2, *map(pa.binary, (16, HASHES, *[8] * BANDS))]
        fields = list(zip(_COLUMNS, kinds, strict=True))
        self._schema, self._signs = pa.schema(fields if signs else fields[:3]), signs
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, self._schema, options=options)
        self._texts: list[bytes] = []
        self._groups: list[str | None] = []
        self._size = 0

    def add(self, document: bytes, group: str | None) -> None:
        """Append a document (its UTF-8 bytes) and its group's name."""
        if self._size + len(document) > BATCH_BYTES or len(self._texts) == BATCH_DOCUMENTS:
            self._flush()
        self._texts.append(document)
        self._groups.append(group)
        self._size += len(document)

    def _flush(self) -> None:
        if texts := self._texts:
            # BLAKE2b (RFC 7693).
            digests = [hashlib.blake2b(text, digest_size=16).digest() for text in texts]
            arrays = [pa.array(texts, pa.string()), pa.array(self._groups, pa.string())]
            arrays.append(pa.array(digests, pa.binary(16)))
            if self._signs:
                signatures, keys = signatures_of(arrays[0].to_pylist())
                arrays += map(_fixed_width, (signatures, *np.split(keys, BANDS, axis=1)))
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
            self.rows.append(len(texts))
        self._texts, self._groups, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before the file is read."""
        self._flush()
        self._writer.close()


def _fixed_width(values: np.ndarray) -> pa.Array:
    """Return the bytes of each row of `values`."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    width = values.shape[1] * values.itemsize
    return pa.Array.from_buffers(pa.binary(width), len(values), buffers)


@dataclass(frozen=True)
class Spool:
    """The documents of a `split` in a part; the first has the number `first` among all."""

    path: Path
    part: int
    split: str
    first: int
    batches: tuple[int, ...]

    @property
    def numbers(self) -> slice:
        """The numbers of its documents."""
        return slice(self.first, self.first + sum(self.batches))

    def read(self, columns: Sequence[str], indices: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield `columns` of the documents with `indices` (sorted), batch by batch."""
        if not len(indices):
            return
        fields, start = list(map(_COLUMNS.index, columns)), 0
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        with pa.OSFile(str(self.path)) as file, pa.ipc.open_file(file, options=options) as reader:
            for number, size in enumerate(self.batches):
                low, high = np.searchsorted(indices, [start, start + size])
                if low < high:
                    batch = reader.get_batch(number)
                    some = pa.array((indices[low:high] - start).tolist(), pa.int64())
                    yield batch if high - low == size else batch.take(some)
                start += size

    def values(self, name: str, kind: type, width: int) -> np.ndarray:
        """Return a column of numbers of one `kind`: [documents, width]."""
        batches = self.read([name], np.arange(sum(self.batches)))
        columns = (np.frombuffer(b.column(name).buffers()[1], kind) for b in batches)
        return np.concatenate([np.empty(0, kind), *columns]).reshape(-1, width)


class SpooledCorpus:
    """The documents of all parts, by the `records` of these, and a verdict on each: KEPT, or why
    it is removed. Numbers are in the order test, validation, train, of each the parts."""

    def __init__(self, records: Sequence[Path]):
        self.parts = list(map(ReadPart.read, records))
        self.spools: list[Spool] = []
        self.documents = 0
        for split in PRECEDENCE:
            for number, (path, part) in enumerate(zip(records, self.parts, strict=True)):
                file, batches = path.with_suffix(f".{split}"), part.splits[split].batches
                self.spools.append(Spool(file, number, split, self.documents, batches))
                self.documents += sum(batches)
        self.group_by = self.parts[0].group_by
        self.verdicts = np.full(self.documents, KEPT, np.uint8)
        #: What decontamination took of train, by rule, and near-duplicates by split.
        self.contaminated: dict[str, TakenByRule] | None = None
        self.near: dict[str, NearDuplicatesOfSplit] = {}

    def spools_of(self, split: str) -> list[Spool]:
        """Return the documents of `split`, by part."""
        return [spool for spool in self.spools if spool.split == split]

    def split_indices(self, numbers: np.ndarray) -> np.ndarray:
        """Return the split of each document, an index in `PRECEDENCE`."""
        starts = [self.spools_of(split)[0].first for split in PRECEDENCE]
        return np.searchsorted(starts, numbers, "right") - 1

    def remaining(self, spool: Spool) -> np.ndarray:
        """Return the indices of the documents of `spool` that no pass removed."""
        return np.flatnonzero(self.verdicts[spool.numbers] == KEPT)

    def equal_values(
        self, name: str, width: int, documents: range
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield a column of 64-bit hashes of those of `documents`, of whole splits, that remain,
        [documents, width], and their numbers: in pieces, so that all with equal values are
        together."""
        pieces = 1 + len(documents) // _TOGETHER
        for piece in range(pieces):
            values, numbers = [np.empty((0, width), np.uint64)], [np.empty(0, np.int64)]
            for spool in (spool for spool in self.spools if spool.first in documents):
                of_spool = spool.values(name, np.uint64, width)
                chosen = of_spool[:, 0] % np.uint64(pieces) == piece
                chosen &= self.verdicts[spool.numbers] == KEPT
                values.append(of_spool[chosen])
                numbers.append(spool.first + np.flatnonzero(chosen))
            yield np.concatenate(values), np.concatenate(numbers)

    def rules(self, split: str) -> dict[str, TakenByRule] | None:
        """Return what each rule took of `split`; None: no rule was on."""
        counts: dict[str, TakenByRule] = {}
        for part in self.parts:
            add_taken(counts, part.splits[split].rules)
        taken = self.contaminated or {}
        add_taken(counts, taken if split == "train" else dict.fromkeys(taken, TakenByRule()))
        return counts or None

"""Documents on disk in order, in batches that bound memory, and what is left out of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

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
#: In the place of a verdict: kept, and not in the share of a mix that is being written.
_NOT_CHOSEN = 255

#: White space beyond ASCII: as numbers of three bytes of UTF-8, the last one 0 if there are two.
_SPACES = np.array(
    [
        int.from_bytes(character.encode("utf-8").ljust(3, b"\0"), "big")
        for character in "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
        "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    ]
)


class Spool:
    """Documents on their way to a file in batches, whose sizes `rows` has; `on_batch` gets each."""

    def __init__(self, path: Path, on_batch: Callable[[list[bytes]], None]):
        self.rows: list[int] = []
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, _SPOOLED, options=options)
        self._on_batch = on_batch
        self._texts: list[bytes] = []
        self._groups: list[bytes | None] = []
        self._size = 0

    def add(self, document: bytes, group: str | None) -> None:
        """Append a document (its UTF-8 bytes, not empty) and its group's name."""
        if self._texts and self._size + len(document) > BATCH_BYTES:
            self._flush()
        self._texts.append(document)
        self._groups.append(group if group is None else group.encode("utf-8"))
        self._size += len(document)
        if len(self._texts) == BATCH_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            columns = [text_array(self._texts), text_array(self._groups)]
            self._writer.write_batch(pa.record_batch(columns, schema=_SPOOLED))
            self.rows.append(len(self._texts))
            self._on_batch(self._texts)
        self._texts, self._groups, self._size = [], [], 0

    def close(self) -> None:
        """Write what is left; to be called before the file is read."""
        self._flush()
        self._writer.close()


@dataclass(frozen=True)
class PartFiles:
    """What a part leaves behind: its record, and beside it its documents and their digests."""

    record: Path

    @classmethod
    def below(cls, directory: Path, number: int) -> Self:
        """Those of part `number` below `directory`."""
        return cls(directory / f"read-{number:05d}.json")

    @property
    def digests(self) -> Path:
        return self.record.with_suffix(".digests")

    def spool(self, split: str) -> Path:
        """The documents of `split`."""
        return self.record.with_suffix(f".{split}")


class SpooledCorpus:
    """What all parts left, in order, and what passes with the records `removed` leave out of it;
    `near` describes the near-duplicates by split. Raises MlmError for damaged numbers beside a
    record."""

    def __init__(self, removed: Iterable[str | Path]):
        paths = list(map(Path, removed))
        records = list(map(PassRecord.read, paths))
        numbers = [path.with_suffix(".numbers") for path in paths]
        for path, beside in zip(paths, numbers, strict=True):
            check_outputs(path, [beside])
        parts = records[0].parts
        self.files = [PartFiles.below(paths[0].parent, number) for number in range(parts)]
        self.parts = [ReadPart.read(file.record) for file in self.files]
        self.group_by = self.parts[0].group_by
        self.removed = Removed(numbers, parts)
        self.near = next((record.near for record in records if record.near is not None), None)
        self._decontaminated = [record.rules for record in records if record.rules is not None]
        self.is_decontaminated = bool(self._decontaminated)

    def rules(self, split: str) -> dict[str, TakenByRule] | None:
        """What each rule took of `split`; None: no rule was on."""
        counts: dict[str, TakenByRule] = {}
        for part in self.parts:
            add_taken(counts, part.splits[split].rules or {})
        for taken in self._decontaminated:
            add_taken(counts, taken if split == "train" else dict.fromkeys(taken, NOTHING))
        return counts or None

    def kept(self, split: str) -> list[int]:
        """How many documents of `split` are kept of each part."""
        removed = self.removed.counts(split).sum(axis=1).tolist()
        return [p.splits[split].documents - r for p, r in zip(self.parts, removed, strict=True)]

    def verdicts(self, part: int, split: str) -> np.ndarray:
        """One byte for each document of `split` in `part`: KEPT, or why it is left out."""
        return self.removed.verdicts(part, split, self.parts[part].splits[split].documents)

    def check(self, part: int, *splits: str) -> None:
        """Raise MlmError if a spool of `part` is not what was written."""
        check_outputs(self.files[part].record, map(self.files[part].spool, splits))

    def read(
        self,
        part: int,
        split: str,
        verdicts: np.ndarray | None = None,
        wanted: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The spooled documents of `split` in `part` that `verdicts` keep, of these those with the
        numbers `wanted` (None: all), batch by batch."""
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
                self.check(number, split)
                verdicts = self.verdicts(number, split)
                if segment.choice:
                    chosen = segment.choice.mask()
                    verdicts[np.flatnonzero(verdicts == KEPT)[~chosen]] = _NOT_CHOSEN
                yield from self.read(number, split, verdicts, own)


def text_array(texts: Sequence[bytes | None]) -> pa.Array:
    """`texts`, each the UTF-8 bytes of one or None, as an array of strings."""
    # From buffers: `pyarrow.array` of a list imports pandas.
    missing, valid = texts.count(None), None
    if missing == len(texts):
        return pa.nulls(len(texts), pa.string())
    if missing:
        there = np.array([text is not None for text in texts], bool)
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
        texts = [text or b"" for text in texts]
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=ends[1:])
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def mask_array(mask: np.ndarray) -> pa.Array:
    """The bool array `mask` as one of Arrow."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def in_pieces(texts: pa.Array) -> Iterator[pa.Array]:
    """`texts`, not empty, in slices of about what a processor's cache holds."""
    step = max(1, len(texts) * _PIECE // max(texts.nbytes, 1))
    return (texts[start : start + step] for start in range(0, len(texts), step))


def size_of(texts: pa.Array) -> tuple[int, int, int]:
    """UTF-8 bytes, code points and words of all `texts`, none of them empty or null; words are
    those of `str.split`."""
    _, ends, data = texts.buffers()
    ends = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    codes = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    in_word = (codes > ord(" ")) | (codes < 0x09) | _between(codes, 0x0E, 0x1B)
    places, sizes = _spaces_beyond_ascii(codes)
    for offset in range(3):
        in_word[places[offset < sizes] + offset] = False
    starts = ends[1:-1] - ends[0]
    words = int(np.count_nonzero(in_word[1:] > in_word[:-1])) + int(in_word[0])
    words += int(np.count_nonzero(in_word[starts] & in_word[starts - 1]))
    # Bytes that continue a character are the lowest as signed numbers.
    characters = int(np.count_nonzero(codes.view(np.int8) >= -0x40))
    return len(codes), characters, words


def _spaces_beyond_ascii(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places in the UTF-8 bytes `codes` at which a space of `_SPACES` begins, and its bytes."""
    places = np.flatnonzero((codes == 0xC2) | _between(codes, 0xE1, 0xE3))
    lead, second, third = (codes.take(places + i, mode="clip").astype(np.int32) for i in range(3))
    third[lead == 0xC2] = 0
    spaces = np.isin(lead << 16 | second << 8 | third, _SPACES)
    return places[spaces], np.where(lead[spaces] == 0xC2, 2, 3)


def _between(codes: np.ndarray, first: int, last: int) -> np.ndarray:
    """Which of `codes`, uint8, are from `first` to `last`; smaller ones become large ones."""
    return (codes - np.uint8(first)) <= np.uint8(last - first)

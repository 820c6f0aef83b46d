"""The Parquet files of a split and its description; empty splits are refused."""

import functools
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlm.config.corpus import UNGROUPED
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    CorpusFile,
    CorpusSource,
    CorpusSplit,
    Encoding,
    FilesSource,
    MixedSource,
    MixSource,
    ReadPart,
    SingleSource,
    WrittenFile,
    document_range,
    file_name,
)
from mlm.corpus.decontamination import HeldOutRuns, overlap_with
from mlm.corpus.deduplication import REASONS
from mlm.corpus.document_groups import group_ids
from mlm.corpus.spooling import BATCH_BYTES, BATCH_DOCUMENTS, SpooledCorpus, in_pieces, numpy_array
from mlm.corpus.words import code_points
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError

#: Row groups after which memory goes back to the system.
_RELEASED = 4


def write_file(
    corpus: SpooledCorpus,
    split: str,
    share: int,
    shares: int,
    held_out: Mapping[str, Sequence[Path]],
    record: Path,
) -> None:
    """Write Parquet file `share` of `shares` of `split`, its `record`, and beside it its groups
    and, with records of `held_out` splits for train, the runs of words that they share. Raises
    MlmError if a split has fewer documents than files, or a file is damaged."""
    _refuse_empty_splits(corpus)
    documents = sum(segment.documents for segment in corpus.segments(split))
    if documents < shares:
        raise MlmError(
            f"{split}: {documents} documents cannot fill {shares} files. Set corpus.count.{split} "
            f"to at most {documents}"
        )
    runs = HeldOutRuns(held_out.values()) if held_out else None
    wanted, sizes = document_range(documents, share, shares), []
    with (
        replacing(record.with_suffix(".parquet")) as path,
        replacing(record.with_suffix(".groups")) as groups,
        replacing(record.with_suffix(".shared")) as shared,
    ):
        with closing(CorpusWriter(path, corpus.group_by, wanted.start)) as writer:
            for batch in corpus.batches(split, wanted):
                for texts in in_pieces(batch.column("text")):
                    strings = texts.to_pylist()
                    characters = sum(map(len, strings))
                    sizes.append((len("".join(strings).encode()), characters, _words(strings)))
                    if runs:
                        runs.look_into(strings)
                writer.write(batch)
        np.array(list(writer.groups), np.int64).tofile(groups)
        shared.write_bytes(runs.shared().tobytes() if runs else b"")
        name = file_name(split, share, shares)
        file = CorpusFile(name, len(wanted), path.stat().st_size, file_sha256(path))
    WrittenFile(file, *map(sum, zip(*sizes, strict=True))).write(record)


def _words(texts: Sequence[str]) -> int:
    """Return the number of words of `texts`: as `str.split` counts them, in a fifth of its time."""
    spaces = _spaces().take(code_points("\n".join(["", *texts])))
    return int(np.count_nonzero(spaces[:-1] > spaces[1:]))


@functools.cache
def _spaces() -> np.ndarray:
    """Return for every code point whether it is white space."""
    return np.array([chr(code).isspace() for code in range(sys.maxunicode + 1)])


class CorpusWriter:
    """One of a split's Parquet files: columns `text` and `group`, the name of a document's group,
    or its number from `first` on if documents are `UNGROUPED`. The sizes of batches change no byte.
    `groups` are the `group_ids` of the names."""

    def __init__(self, path: Path, group_by: str, first: int):
        self._next, self._ungrouped = first, group_by == UNGROUPED
        self.groups: set[int] = set()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = self._row_groups = 0
        kind = pa.int64() if self._ungrouped else pa.string()
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
        sizes = pc.call_function("binary_length", [batch.column("text")])
        offsets = np.concatenate([[0], np.cumsum(np.from_dlpack(sizes), dtype=np.int64)])
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
        if self._ungrouped:
            groups = numpy_array(np.arange(self._next, self._next + len(table)))
        else:
            self.groups.update(group_ids(groups.unique()).tolist())
        self._next += len(table)
        written = pa.table([texts, groups], schema=self._schema)
        self._writer.write_table(written, row_group_size=len(table))
        self._waiting, self._rows, self._size = [], 0, 0
        self._row_groups += 1
        if self._row_groups % _RELEASED == 0:
            pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Write what is left, and finish the file."""
        if self._rows:
            self._flush()
        self._writer.close()
        pa.default_memory_pool().release_unused()


def _documents_by_reason(
    corpus: SpooledCorpus, split: str, parts: Sequence[int] | None = None
) -> dict[str, int]:
    """Return how many documents of `split` in `parts` were read, removed by filter, and kept."""
    numbers = list(range(len(corpus.parts)) if parts is None else parts)
    counts: Counter[str] = Counter()
    for number, part in enumerate(corpus.parts):
        filters = part.splits[split].filters
        counts.update(filters if number in numbers else dict.fromkeys(filters, 0))
    by_pass = dict(zip(REASONS, corpus.removed(split)[numbers].sum(axis=0).tolist(), strict=True))
    if corpus.near is None:
        del by_pass["near_duplicate"], by_pass["near_leaked"]
    if not corpus.is_decontaminated:
        del by_pass["decontamination"]
    remaining = corpus.remaining(split)
    return counts | by_pass | {"kept": sum(remaining[number] for number in numbers)}


def described_splits(
    corpus: SpooledCorpus, written: Mapping[str, Sequence[Path]]
) -> dict[str, CorpusSplit]:
    """Return the descriptions of all splits; `written` are the records of `write_file`, in order.
    Raises MlmError if the groups tell nothing apart."""
    shared, splits = _union(written["train"], ".shared", np.uint64), {}
    for split in SPLITS:
        files = list(map(WrittenFile.read, written[split]))
        documents = sum(file.file.documents for file in files)
        groups = _union(written[split], ".groups", np.int64)
        splits[split] = CorpusSplit(
            split=split,
            source=_source(corpus, split),
            documents=documents,
            groups=documents if corpus.group_by == UNGROUPED else len(groups),
            group_by=corpus.group_by,
            bytes=sum(file.bytes for file in files),
            characters=sum(file.characters for file in files),
            words=sum(file.words for file in files),
            filters=_documents_by_reason(corpus, split),
            encoding=sum((part.splits[split].encoding for part in corpus.parts), Encoding()),
            files=tuple(file.file for file in files),
            rules=corpus.rules(split),
            near_duplicates=corpus.near[split] if corpus.near else None,
            overlap_with_train=None if split == "train" else overlap_with(shared, written[split]),
        )
    _refuse_useless_groups(splits, corpus.parts[0])
    return splits


def _union(records: Sequence[Path], ending: str, kind: type) -> np.ndarray:
    """Return the different values in the files beside `records`, sorted."""
    values = [np.fromfile(record.with_suffix(ending), kind) for record in records]
    return np.unique(np.concatenate(values))


def _source(corpus: SpooledCorpus, split: str) -> CorpusSource:
    of_parts = [part.splits[split].source for part in corpus.parts]
    mixed = [part.mixed for part in corpus.parts if part.mixed]
    if not mixed:
        return _joined(of_parts)
    sources, segments = [], corpus.segments(split)
    for name, weight in dict.fromkeys((source.name, source.weight) for source in mixed):
        numbers = [number for number, source in enumerate(mixed) if source.name == name]
        documents = sum(segment.documents for segment in segments if segment.part in numbers)
        source = _joined([of_parts[number] for number in numbers])
        counts = _documents_by_reason(corpus, split, numbers)
        sources.append(MixedSource(name, weight, documents, counts, source))
    carved = next((one.source.carved_from for one in sources if one.source.carved_from), None)
    return MixSource("mix", tuple(sources), carved_from=carved)


def _joined(sources: Sequence[SingleSource]) -> SingleSource:
    files = [source.files for source in sources if isinstance(source, FilesSource)]
    return replace(sources[0], files=sum(files, ())) if files else sources[0]


def _refuse_empty_splits(corpus: SpooledCorpus) -> None:
    """Raise MlmError if filters left no document of a split."""
    problems = [_emptied(corpus, split) for split in SPLITS if not sum(corpus.remaining(split))]
    if problems:
        raise MlmError("\n".join(["A split of the corpus is empty.", *problems]))


def _emptied(corpus: SpooledCorpus, split: str) -> str:
    counts, part, rules = _documents_by_reason(corpus, split), corpus.parts[0], corpus.rules(split)
    removed = ", ".join(f"{n} {why}" for why, n in counts.items() if n and why != "read")
    line = f"{split} is left without a document: {counts['read']} read"
    line += f" ({removed})." if removed else "."
    by_rule = Counter({rule: taken.documents for rule, taken in (rules or {}).items()})
    for rule, documents in (+by_rule).most_common(1):
        line += f" Of the rules, corpus.filters.{rule} took most: {documents}."
    if split not in part.carved:
        return f"{line} Look at corpus.filters and at what was read"
    groups = "" if part.group_by == UNGROUPED else f", in whole groups ({part.group_by})"
    return (
        f"{line} It is carved from train by corpus.held_out.{split}: {part.carved[split]}{groups}; "
        "raise it, use a larger corpus (duplicates do not count), or name texts for the split"
    )


def _refuse_useless_groups(splits: Mapping[str, CorpusSplit], part: ReadPart) -> None:
    alone = [name for name, split in splits.items() if split.groups == 1 < split.filters["kept"]]
    are_all = all(split.groups == 1 for split in splits.values())
    if alone and (are_all or not part.carved.keys().isdisjoint(alone)):
        raise MlmError(
            f"The groups ({part.group_by}) are too few or too large: all documents of "
            f"{' and of '.join(alone)} are in one, so that nothing can be resampled. Let "
            "corpus.group_by or corpus.group_per name smaller ones (an article, an author), raise "
            "corpus.held_out, or set group_by and group_per to null"
        )

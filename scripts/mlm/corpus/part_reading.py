"""The first pass over a part of the source: clean, filter, count, and spool to disk."""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import Encoding, Mixed, ReadPart, ReadSplit
from mlm.corpus.deduplication import digesting
from mlm.corpus.document_groups import OWN, Document, carve
from mlm.corpus.filters import Filters, SplitCounts
from mlm.corpus.parts import Piece
from mlm.corpus.sources import FILE_DIGESTS, Source, group_kind, open_source
from mlm.corpus.spooling import PartFiles, Spool
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError

#: Between two lines of the log.
_PROGRESS_SECONDS = 5.0


def read_part(settings: dict, part: Mapping, files: PartFiles) -> None:
    """Read a part (of `planned_parts`) and write `files`; MlmError for bad input."""
    own = settings["mix"][part["source"]] if "source" in part else settings
    source, filters = _opened(settings, own, part), Filters(own["filters"])
    with ExitStack() as together:
        digests = together.enter_context(replacing(files.digests))
        paths = {s: together.enter_context(replacing(files.spool(s))) for s in SPLITS}
        note = together.enter_context(digesting(digests))
        spools = {split: Spool(p, partial(note, split)) for split, p in paths.items()}
        counts = {split: filters.counts() for split in SPLITS}
        try:
            _read(source, filters, own["seed"], counts, spools)
        finally:
            for spool in spools.values():
                spool.close()
    splits = {
        split: ReadSplit(
            filters=count.filters,
            encoding=Encoding(count.replaced_bytes, count.nul_bytes, count.byte_order_marks),
            batches=tuple(spools[split].rows),
            source=source.described[split],
            rules=count.rules or None,
        )
        for split, count in counts.items()
    }
    ReadPart(splits, source.group_by, source.carved, source.mixed).write(files.record)


def _opened(settings: dict, own: dict, part: Mapping) -> Source:
    pieces = {split: [Piece(*p) for p in found] for split, found in part["files"].items()}
    source = open_source(own, pieces, tuple(part["share"]))
    if own is settings:
        return source
    kinds = {group_kind(one) for one in settings["mix"].values()}
    group_by, streams = kinds.pop() if len(kinds) == 1 else "group", source.streams
    if group_by != OWN:
        streams = {s: partial(_regrouped, of, part["source"]) for s, of in streams.items()}
    mixed = Mixed(part["source"], own["weight"], settings["seed"])
    return replace(source, streams=streams, group_by=group_by, mixed=mixed)


def _regrouped(stream: Callable[[], Iterator[Document]], name: str) -> Iterator[Document]:
    """The documents of the source `name`, in groups apart from those of the other sources."""
    for text, group in stream():
        if group is None:
            data = text.encode("utf-8", "surrogatepass")
            group = hashlib.blake2b(data, digest_size=16).hexdigest()
        yield Document(text, f"{name}: {group}")


def check_unchanged(identities: Mapping[str, str]) -> None:
    """Raise MlmError if a source file has another of the `identities` of when jobs were planned."""
    for path, identity in identities.items():
        there = Path(path).exists()
        if there and FILE_DIGESTS.identity(path) == identity:
            continue
        what = "was changed" if there else "is gone"
        raise MlmError(
            f"{path}: {what} since the jobs were planned, so that the parts of the corpus would "
            "not be of one text. Leave it alone meanwhile, and give the same snakemake command "
            "again: what was read of other files stays"
        )


def _read(
    source: Source,
    filters: Filters,
    seed: int | None,
    counts: dict[str, SplitCounts],
    spools: dict[str, Spool],
) -> None:
    """Every document counted, and spooled unless it is refused by itself."""
    documents, size, start = 0, 0, time.monotonic()
    due = start + _PROGRESS_SECONDS
    for own_split, stream in source.streams.items():
        shares = source.carved if own_split == "train" else {}
        for raw, group in stream():
            judged = None if filters.keep_as_is(raw) else filters.judged(raw)
            document = (judged.text if judged else raw).encode("utf-8")
            # What belongs together stays on one side.
            key = document if group is None else group.encode("utf-8")
            split = carve(key, seed, shares) if shares else own_split
            counts[split].add(judged)
            if not (judged and judged.refusal):
                spools[split].add(document, group)
            documents += 1
            size += len(document)
            if documents % 256 == 0 and time.monotonic() > due:
                due += _PROGRESS_SECONDS
                _show(documents, size, start)
    _show(documents, size, start)


def _show(documents: int, size: int, start: float) -> None:
    rate = size / 1e6 / max(time.monotonic() - start, 1e-3)
    read = f"{documents:,} documents read, {size / 1e6:.1f} MB"
    print(f"corpus: {read}, {rate:.1f} MB/s", file=sys.stderr)

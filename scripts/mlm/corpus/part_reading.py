"""The first pass over a part of the source: clean, filter, count, and spool to disk."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from mlm.config.corpus import CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import ReadPart, ReadSplit
from mlm.corpus.deduplication import digesting
from mlm.corpus.document_groups import carve
from mlm.corpus.filters import Filters, SplitCounts
from mlm.corpus.parts import Part
from mlm.corpus.sources import FILE_DIGESTS, Source, open_source
from mlm.corpus.spooling import Spool
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress


def read_part(configuration: CorpusConfiguration, part: Part, record: Path) -> None:
    """Read `part` and write its `record`, and beside it its documents and their digests. Raises
    MlmError for bad input."""
    source = open_source(configuration, part)
    filters = Filters(configuration.corpus.sources()[part.source].filters)
    with ExitStack() as together:
        digests, *paths = (
            together.enter_context(replacing(record.with_suffix(f".{ending}")))
            for ending in ("digests", *SPLITS)
        )
        note = together.enter_context(digesting(digests))
        spools = {s: Spool(path, partial(note, s)) for s, path in zip(SPLITS, paths, strict=True)}
        counts = {split: filters.counts() for split in SPLITS}
        try:
            _read(source, filters, configuration.seed, counts, spools)
        finally:
            for spool in spools.values():
                spool.close()
    splits = {
        split: ReadSplit(
            filters=count.filters,
            encoding=count.encoding,
            batches=tuple(spools[split].rows),
            source=source.described[split],
            rules=count.rules or None,
        )
        for split, count in counts.items()
    }
    ReadPart(splits, source.group_by, source.carved, source.mixed).write(record)


def check_unchanged(identities: Mapping[str, str]) -> None:
    """Raise MlmError if a source file has another of the `identities` than when jobs were
    planned."""
    for path, identity in identities.items():
        exists = Path(path).exists()
        if exists and FILE_DIGESTS.identity(path) == identity:
            continue
        change = "was changed" if exists else "is gone"
        raise MlmError(
            f"{path}: {change} since the jobs were planned, so that the parts of the corpus would "
            "not be of one text. Leave it alone meanwhile, and give the same snakemake command "
            "again: what was read of other files stays"
        )


def _read(
    source: Source,
    filters: Filters,
    seed: int,
    counts: dict[str, SplitCounts],
    spools: dict[str, Spool],
) -> None:
    """Count every document, and spool those that the filters keep."""
    progress, size, documents = Progress("reading the corpus", None, "bytes"), 0, 0
    for stream_split, stream in source.streams.items():
        shares = source.carved if stream_split == "train" else {}
        for raw, group in stream():
            filtered = None if filters.keeps_unchanged(raw) else filters.apply(raw)
            document = (filtered.text if filtered else raw).encode("utf-8")
            # A group is carved as a whole.
            key = document if group is None else group.encode("utf-8")
            split = carve(key, seed, shares) if shares else stream_split
            counts[split].add(filtered)
            if not (filtered and filtered.reason):
                spools[split].add(document, group)
            documents += 1
            size += len(document)
            if documents % 256 == 0:
                progress.to(size, f"{documents:,} documents")

"""The first pass over a source, or a part of it: clean, filter, count, and spool to disk."""

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlm.corpus.artefacts import Encoding, ReadPart, ReadSplit
from mlm.corpus.deduplication import digesting
from mlm.corpus.document_groups import carve
from mlm.corpus.filters import Filters, SplitCounts
from mlm.corpus.sources import FILE_DIGESTS, SPLITS, Source
from mlm.corpus.spooling import Spool
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError

#: Between two lines of the log.
_PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class PartFiles:
    """What a part leaves behind: its record, and beside it its documents and their digests."""

    record: Path

    @classmethod
    def below(cls, directory: Path, number: int) -> "PartFiles":
        """Those of part `number` below `directory`."""
        return cls(directory / f"read-{number:05d}.json")

    @property
    def digests(self) -> Path:
        return self.record.with_suffix(".digests")

    def spool(self, split: str) -> Path:
        """The documents of `split`."""
        return self.record.with_name(f"{self.record.stem}-{split}.arrow")


@contextmanager
def scratch_directory(directory: Path) -> Iterator[Path]:
    """An empty `directory` for working files, which are gone afterwards."""
    # A fixed name, so that what a kill has left behind is removed by the next run.
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def read_source(source: Source, filters: Filters, seed: int | None, files: PartFiles) -> ReadPart:
    """Read `source`, write `files`, and return the record among them; MlmError for bad input."""
    with ExitStack() as together:
        digests = together.enter_context(replacing(files.digests))
        paths = {s: together.enter_context(replacing(files.spool(s))) for s in SPLITS}
        note = together.enter_context(digesting(digests))
        spools = {split: Spool(p, partial(note, split)) for split, p in paths.items()}
        counts = {split: filters.counts() for split in SPLITS}
        try:
            _read(source, filters, seed, counts, spools)
        finally:
            for spool in spools.values():
                spool.close()
        record = ReadPart(
            splits={
                split: ReadSplit(
                    filters=count.filters,
                    encoding=Encoding(count.replaced_bytes, count.nul_bytes),
                    batches=tuple(spools[split].rows),
                    source=source.described[split],
                    rules=count.rules or None,
                )
                for split, count in counts.items()
            },
            group_by=source.group_by,
            carved=source.carved,
            mixed=source.mixed,
        )
    record.write(files.record)
    return record


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
            judged = None if filters.keep_as_it_is(raw) else filters.judged(raw)
            document = (judged.text if judged else raw).encode("utf-8")
            # What belongs together stays on one side.
            key = document if group is None else group.encode("utf-8")
            split = carve(key, seed, shares) if shares else own_split
            if judged and split == "train":
                judged = filters.judged_in_train(judged)
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

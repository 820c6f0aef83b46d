"""The passes over a corpus, from a source to the Parquet files of three splits: in one job, or in
jobs of which each reads a part of the source or writes one of the files."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from mlm.config.corpus import CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit, ReadPart, ReadSplit
from mlm.corpus.corpus_writing import described_splits, write_file
from mlm.corpus.decontamination import decontaminate
from mlm.corpus.deduplication import deduplicate, digest_writer
from mlm.corpus.document_groups import carve
from mlm.corpus.filters import Filters
from mlm.corpus.near_duplicates import cluster, sign
from mlm.corpus.source_files import Part, SplitFiles
from mlm.corpus.sources import open_source
from mlm.corpus.spooling import Spool, SpooledCorpus, part_record
from mlm.foundations.artefacts import MadeFrom, check_outputs
from mlm.foundations.atomic import replacing
from mlm.foundations.terminal import Progress


def read_part(configuration: CorpusConfiguration, part: Part, record: Path) -> None:
    """Clean, filter and count the documents of `part`, and write its `record`, and beside it those
    that remain and their digests. Raises MlmError for bad input."""
    source, seed = open_source(configuration, part), configuration.seed
    filters = Filters(configuration.corpus.sources()[part.source].filters)
    counts = {split: filters.counts() for split in SPLITS}
    progress, size, documents = Progress("reading the corpus", None, "bytes"), 0, 0
    with ExitStack() as together:
        file = together.enter_context(replacing(record.with_suffix(".digests")))
        digests, spools = together.enter_context(closing(digest_writer(file))), {}
        for split in SPLITS:
            file = together.enter_context(replacing(record.with_suffix(f".{split}")))
            spools[split] = together.enter_context(closing(Spool(file, split, digests)))
        for stream_split, stream in source.streams.items():
            shares = source.carved if stream_split == "train" else {}
            for raw, group in stream():
                filtered = filters.apply(raw)
                document = filtered.text.encode("utf-8")
                # A group is carved as a whole.
                key = document if group is None else group.encode("utf-8")
                split = carve(key, seed, shares) if shares else stream_split
                counts[split].add(filtered)
                if not filtered.reason:
                    spools[split].add(document, group)
                documents += 1
                size += len(document)
                if documents % 256 == 0:
                    progress.to(size, f"{documents:,} documents")
    splits = {
        split: ReadSplit(
            filters=count.filters,
            encoding=count.encoding,
            batches=tuple(spools[split].rows),
            source=source.described[split],
            rules=count.rules,
        )
        for split, count in counts.items()
    }
    ReadPart(splits, source.group_by, source.carved, source.mixed).write(record)


def after_reading(
    parts: Sequence[Path],
    configuration: CorpusConfiguration,
    shares: Mapping[str, int],
    directory: Path,
) -> tuple[dict[str, CorpusSplit], dict[str, list[Path]]]:
    """Run all passes over `parts`, records of `read_part`. Return the descriptions of the splits
    and, by split, the records of the `shares` files that were written to `directory`."""
    filters, beside, numbers = configuration.corpus.filters, parts[0].parent, range(len(parts))
    leaks, removed = filters.remove_leakage, [beside / "removed.json"]
    deduplicate(parts, filters.deduplicate, leaks, *removed)
    if configuration.decontaminates:
        corpus = SpooledCorpus(removed)
        removed += [beside / f"overlap-{number:05d}.json" for number in numbers]
        for number in numbers:
            decontaminate(corpus, number, configuration, removed[1 + number])
    if filters.near_duplicates.enabled:
        corpus = SpooledCorpus(removed)
        signed = [beside / f"signed-{number:05d}.json" for number in numbers]
        for number in numbers:
            sign(corpus, number, filters.near_duplicates, signed[number])
        removed.append(beside / "near.json")
        cluster(corpus, signed, filters.near_duplicates, leaks, removed[-1])
    corpus, written = SpooledCorpus(removed), {}
    # Train last: it is compared with what is held out.
    for split in reversed(SPLITS):
        records = _written_records(directory, split, shares[split])
        for share, record in enumerate(records):
            held_out = written if split == "train" else {}
            write_file(corpus, split, share, shares[split], held_out, record)
        written[split] = records
    return described_splits(corpus, written), written


def _written_records(directory: Path, split: str, shares: int) -> list[Path]:
    return [directory / f"{split}-{share:05d}-of-{shares:05d}.json" for share in range(shares)]


def build_corpus(
    configuration: CorpusConfiguration,
    files: SplitFiles,
    parquet: SplitFiles,
    described: Mapping[str, str],
) -> dict[str, CorpusSplit]:
    """Write the corpus of `files` to `parquet` and `described`, all by split, and return the
    descriptions: all outputs, or none. Raises MlmError for bad input and empty splits."""
    # A fixed name, so that the next run removes what a kill has left behind.
    scratch = Path(parquet["train"][0]).parent / ".corpus-in-progress"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        part = part_record(scratch, 0)
        read_part(configuration, Part(files=files), part)
        shares = {split: len(parquet[split]) for split in SPLITS}
        descriptions, written = after_reading([part], configuration, shares, scratch)
        _put_in_place(descriptions, written, parquet, described)
        return descriptions
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def take_over(
    directory: Path, parquet: SplitFiles, described: Mapping[str, str], threads: int
) -> dict[str, CorpusSplit]:
    """Make the corpus of what the jobs of all parts wrote below `directory`, and return the
    descriptions by split. Raises MlmError for a damaged file."""
    descriptions = {split: CorpusSplit.read(directory / f"{split}.json") for split in described}
    written = {s: _written_records(directory / "written", s, len(of)) for s, of in parquet.items()}

    def check(record: Path) -> None:
        check_outputs(record, [record.with_suffix(".parquet")])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(check, [record for split in parquet for record in written[split]]))
    _put_in_place(descriptions, written, parquet, described)
    # Left by killed jobs that were run again since.
    for path in directory.rglob(".*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return descriptions


def _put_in_place(
    descriptions: Mapping[str, CorpusSplit],
    written: Mapping[str, Sequence[Path]],
    parquet: SplitFiles,
    described: Mapping[str, str],
) -> None:
    """Make all outputs appear: the files beside the records `written`, and the descriptions."""
    # One date for all: a linked file shares its date with an input of the job.
    now = time.time_ns()
    with ExitStack() as together:
        for split, paths in parquet.items():
            for path, record in zip(paths, written[split], strict=True):
                target = together.enter_context(replacing(path))
                target.unlink(missing_ok=True)
                try:
                    os.link(record.with_suffix(".parquet"), target)
                    os.utime(target, ns=(now, now))
                except OSError:
                    shutil.copyfile(record.with_suffix(".parquet"), target)
        for split, path in described.items():
            description = replace(descriptions[split], made_from=MadeFrom())
            description.write(together.enter_context(replacing(path)))


def remove_other_parts(directory: Path, current: str = "") -> None:
    """Remove what a kill left below `directory` of other numbers of parts than `current`."""
    for path in directory.glob("[0-9]" * 5):
        if path.name != current:
            shutil.rmtree(path)

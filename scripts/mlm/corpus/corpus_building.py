"""From a source to the Parquet files of three splits, in one job or by the jobs of its parts."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mlm.config.corpus import CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.corpus_writing import write_file
from mlm.corpus.decontamination import decontaminate
from mlm.corpus.deduplication import deduplicate
from mlm.corpus.near_clusters import cluster
from mlm.corpus.near_duplicates import sign
from mlm.corpus.part_reading import read_part
from mlm.corpus.parts import Part, SplitFiles
from mlm.corpus.split_descriptions import described_splits
from mlm.corpus.spooling import SpooledCorpus, part_record
from mlm.foundations.artefacts import MadeFrom, check_outputs
from mlm.foundations.atomic import replacing


def build_corpus(
    configuration: CorpusConfiguration,
    files: SplitFiles,
    parquet: SplitFiles,
    described: Mapping[str, str],
) -> dict[str, CorpusSplit]:
    """Write the corpus of `files` to `parquet` and `described`, all by split, and return the
    descriptions. All outputs appear together, or none. Raises MlmError for bad input and empty
    splits."""
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
    corpus = SpooledCorpus(removed)
    if configuration.decontaminates:
        removed += [beside / f"overlap-{number:05d}.json" for number in numbers]
        for number in numbers:
            decontaminate(corpus, number, configuration, removed[1 + number])
        corpus = SpooledCorpus(removed)
    if (near := filters.near_duplicates).enabled:
        signed = [beside / f"signed-{number:05d}.json" for number in numbers]
        for number in numbers:
            shape = {"words": near.words, "bands": near.bands, "rows": near.rows}
            sign(corpus, number, signed[number], **shape)
        removed.append(beside / "near.json")
        cluster(corpus, signed, near, leaks, removed[-1])
        corpus = SpooledCorpus(removed)
    written: dict[str, list[Path]] = {}
    # Train last: it is compared with what is held out.
    for split in reversed(SPLITS):
        written[split] = _written_records(directory, split, shares[split])
        held_out = {s: records for s, records in written.items() if split == "train" != s}
        for share, record in enumerate(written[split]):
            write_file(corpus, split, share, shares[split], held_out, record)
    return described_splits(corpus, written), written


def _written_records(directory: Path, split: str, shares: int) -> list[Path]:
    return [directory / f"{split}-{share:05d}-of-{shares:05d}.json" for share in range(shares)]


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
                _link(record.with_suffix(".parquet"), together.enter_context(replacing(path)), now)
        for split, path in described.items():
            description = replace(descriptions[split], made_from=MadeFrom())
            description.write(together.enter_context(replacing(path)))


def remove_other_parts(directory: Path, current: str = "") -> None:
    """Remove what a kill left below `directory` of other numbers of parts than `current`."""
    for path in directory.glob("[0-9]" * 5):
        if path.name != current:
            shutil.rmtree(path)


def _link(source: Path, target: Path, date: int) -> None:
    """Make `target` the file `source`, without a copy if the file system allows it."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
        os.utime(target, ns=(date, date))
    except OSError:
        shutil.copyfile(source, target)

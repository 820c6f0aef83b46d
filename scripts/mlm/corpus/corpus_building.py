"""From a source to the Parquet files of three splits, in one job or by the jobs of its parts."""

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mlm.config.fields import SPLITS
from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.corpus_writing import write_file
from mlm.corpus.decontamination import decontaminate
from mlm.corpus.deduplication import deduplicate
from mlm.corpus.near_clusters import cluster
from mlm.corpus.near_duplicates import sign
from mlm.corpus.part_reading import read_part
from mlm.corpus.parts import decontamination_settings, whole
from mlm.corpus.split_descriptions import described_splits
from mlm.corpus.spooling import PartFiles, SpooledCorpus
from mlm.foundations.artefacts import MadeFrom, check_outputs
from mlm.foundations.atomic import replacing

#: Files by split.
_Paths = dict[str, list[str]]


def build_corpus(
    settings: dict, files: _Paths, parquet: _Paths, described: dict[str, str]
) -> dict[str, CorpusSplit]:
    """Write the corpus of `files`, by split, to `parquet` and `described`, by split, and return the
    descriptions. All outputs appear together, or none. Raises MlmError for bad input and empty
    splits."""
    # A fixed name, so that what a kill has left behind is removed by the next run.
    scratch = Path(parquet["train"][0]).parent / ".corpus-in-progress"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        part = PartFiles.below(scratch, 0)
        read_part(settings, {"files": whole(files), "share": (0, 1)}, part)
        shares = {split: len(parquet[split]) for split in SPLITS}
        made, written = after_reading([part.record], settings, shares, scratch)
        _put_in_place(made, written, parquet, described)
        return made
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def after_reading(
    parts: list[Path], settings: Mapping, shares: dict[str, int], directory: Path
) -> tuple[dict[str, CorpusSplit], dict[str, list[Path]]]:
    """All passes over `parts`, records of `read_part`: the descriptions of the splits and, by
    split, the records of the `shares` files that were written to `directory`."""
    filters, beside, numbers = settings["filters"], parts[0].parent, range(len(parts))
    leaks, removed = filters["remove_leakage"], [beside / "removed.json"]
    deduplicate(parts, filters["deduplicate"], leaks, *removed)
    corpus = SpooledCorpus(removed)
    if (decontamination := decontamination_settings(settings)) is not None:
        removed += [beside / f"overlap-{number:05d}.json" for number in numbers]
        for number in numbers:
            decontaminate(corpus, number, decontamination, removed[1 + number])
        corpus = SpooledCorpus(removed)
    if "near_duplicates" in filters:
        near = NearDuplicates.of_param(filters["near_duplicates"])
        signed = [beside / f"signed-{number:05d}.json" for number in numbers]
        for number in numbers:
            sign(corpus, number, near, signed[number])
        removed.append(beside / "near.json")
        cluster(corpus, signed, near, leaks, removed[-1])
        corpus = SpooledCorpus(removed)
    written: dict[str, list[Path]] = {}
    # Train last: it is compared with what is held out.
    for split in reversed(SPLITS):
        records = _written_records(directory, split, shares[split])
        for share, record in enumerate(records):
            others = written if split == "train" else {}
            write_file(corpus, split, share, shares[split], others, record)
        written[split] = records
    return described_splits(corpus, written), written


def _written_records(directory: Path, split: str, shares: int) -> list[Path]:
    return [directory / f"{split}-{share:05d}-of-{shares:05d}.json" for share in range(shares)]


def take_over(
    directory: Path, parquet: _Paths, described: dict[str, str], threads: int
) -> tuple[dict[str, CorpusSplit], dict[str, str]]:
    """Make what the jobs of all parts wrote below `directory` the corpus: the descriptions by
    split, and the sha256 of each Parquet file by path. Raises MlmError for a damaged file."""
    made = {split: CorpusSplit.read(directory / f"{split}.json") for split in described}
    written = {s: _written_records(directory / "written", s, len(of)) for s, of in parquet.items()}

    def checked(record: Path) -> dict[str, str]:
        return check_outputs(record, [record.with_suffix(".parquet")])

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(checked, [record for split in parquet for record in written[split]]))
    outputs = [path for split in parquet for path in parquet[split]]
    digests = {
        path: sha256 for path, own in zip(outputs, found, strict=True) for sha256 in own.values()
    }
    _put_in_place(made, written, parquet, described)
    # What a kill left behind of jobs that were then run again.
    for left in directory.rglob(".*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return made, digests


def _put_in_place(
    made: dict[str, CorpusSplit],
    written: dict[str, list[Path]],
    parquet: _Paths,
    described: dict[str, str],
) -> None:
    """Make all outputs appear: the files beside the records `written`, and the descriptions."""
    with ExitStack() as together:
        for split, paths in parquet.items():
            for path, record in zip(paths, written[split], strict=True):
                _link(record.with_suffix(".parquet"), together.enter_context(replacing(path)))
        for split, path in described.items():
            own = replace(made[split], made_from=MadeFrom())
            own.write(together.enter_context(replacing(path)))


def remove_other_parts(directory: Path, current: str | None) -> None:
    """Remove what a kill left below `directory` of another number of parts than `current`."""
    for left in directory.glob("[0-9]" * 5):
        if left.name != current:
            shutil.rmtree(left)


def _link(source: Path, target: Path) -> None:
    """Let `target` be the file `source`, without a copy where the file system allows it."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
        os.utime(target)
    except OSError:
        shutil.copyfile(source, target)

"""From a source to the Parquet files of three splits, in one job or by the jobs of its parts."""

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mlm.config.filters import NearDuplicates
from mlm.corpus import passes
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.corpus_writing import SpooledCorpus
from mlm.corpus.decontamination import held_out
from mlm.corpus.mix import open_part
from mlm.corpus.part_reading import SPLITS, PartFiles, read_source, scratch_directory
from mlm.corpus.parts import whole
from mlm.corpus.split_descriptions import described_splits
from mlm.foundations.artefacts import MadeFrom, check_outputs
from mlm.foundations.atomic import replacing


def build_corpus(
    settings: dict,
    files: dict[str, list[str]],
    parquet: dict[str, list[str]],
    described: dict[str, str],
) -> dict[str, CorpusSplit]:
    """Write the corpus and return the descriptions of its splits.

    `settings` are those of `file_patterns.used_settings`, `files` the matched files by split,
    `parquet` and `described` the outputs by split: files, each with an equal share of the
    documents, and the description. All outputs appear together, or none. Raises MlmError for bad
    input and for a split that is left without documents.
    """
    everything = {"files": whole(files), "share": (0, 1)}
    beside = Path(parquet["train"][0]).parent
    with scratch_directory(beside / ".corpus-in-progress") as scratch:
        part = PartFiles.below(scratch, 0)
        read_source(*open_part(settings, everything), part)
        shares = {split: len(parquet[split]) for split in SPLITS}
        descriptions, written = after_reading([part.record], settings["filters"], shares, scratch)
        _put_in_place(descriptions, written, parquet, described)
    return descriptions


def after_reading(
    parts: list[Path], filters: Mapping, shares: dict[str, int], directory: Path
) -> tuple[dict[str, CorpusSplit], dict[str, list[Path]]]:
    """All passes over `parts`, records of `read_source`, which leave their files in `directory`.

    Returns the descriptions of the splits and, by split, the records of its `shares` files.
    """
    leaks, beside = filters["remove_leakage"], parts[0].parent
    removed = [beside / "removed.json"]
    passes.deduplicate(parts, filters["deduplicate"], leaks, *removed)
    if held_out(filters.get("decontamination")):
        overlaps = [beside / f"overlap-{number:05d}.json" for number in range(len(parts))]
        for number, record in enumerate(overlaps):
            passes.decontaminate(removed, number, filters["decontamination"], record)
        removed += overlaps
    if "near_duplicates" in filters:
        near, clustered = NearDuplicates.of_param(filters["near_duplicates"]), beside / "near.json"
        signed = [beside / f"signed-{number:05d}.json" for number in range(len(parts))]
        for number, record in enumerate(signed):
            passes.sign(removed, number, near, record)
        passes.cluster(removed, signed, near, leaks, clustered)
        removed.append(clustered)
    corpus = SpooledCorpus(removed)
    written: dict[str, list[Path]] = {}
    # Train last: it is compared with what is held out.
    for split in reversed(SPLITS):
        records = _written_records(directory, split, shares[split])
        for share, record in enumerate(records):
            others = written if split == "train" else {}
            passes.write(corpus, split, share, shares[split], others, record)
        written[split] = records
    return described_splits(corpus, written), written


def _written_records(directory: Path, split: str, shares: int) -> list[Path]:
    return [directory / f"{split}-{share:05d}-of-{shares:05d}.json" for share in range(shares)]


def take_over(
    directory: Path, parquet: dict[str, list[str]], described: dict[str, str], threads: int
) -> tuple[dict[str, CorpusSplit], dict[str, str]]:
    """Make what the jobs of all parts wrote below `directory` the corpus, and describe it.

    Returns the descriptions by split, and the sha256 of each Parquet file by its path. Raises
    MlmError if a file is not what was written.
    """
    descriptions = {s: CorpusSplit.read(directory / f"{s}.json") for s in described}
    written = {s: _written_records(directory / "written", s, len(of)) for s, of in parquet.items()}
    records = [record for split in parquet for record in written[split]]

    def checked(record: Path) -> dict[str, str]:
        return check_outputs(record, [record.with_suffix(".parquet")])

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(checked, records))
    outputs = [path for split in parquet for path in parquet[split]]
    digests = {
        path: sha256 for path, own in zip(outputs, found, strict=True) for sha256 in own.values()
    }
    _put_in_place(descriptions, written, parquet, described)
    # What a kill left behind of jobs that were then run again.
    for left in directory.rglob(".*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return descriptions, digests


def _put_in_place(
    descriptions: dict[str, CorpusSplit],
    written: dict[str, list[Path]],
    parquet: dict[str, list[str]],
    described: dict[str, str],
) -> None:
    """Make all outputs appear: the files beside the records `written`, and the descriptions."""
    with ExitStack() as together:
        for split, paths in parquet.items():
            for path, record in zip(paths, written[split], strict=True):
                _link(record.with_suffix(".parquet"), together.enter_context(replacing(path)))
        for split, path in described.items():
            own = replace(descriptions[split], made_from=MadeFrom())
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

"""The passes over a source that was read in parts (`part_reading`), up to its description.

Each pass writes its record and, beside it, files of the record's name with another ending. A
single job calls them in order (`corpus_building`); of a large source, jobs of their own do.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import (
    CorpusSplit,
    NearDuplicatesRemoved,
    ReadPart,
    RemovedDocuments,
    SignedPart,
    WrittenFile,
)
from mlm.corpus.corpus_writing import SpooledCorpus, write_share
from mlm.corpus.decontamination import Decontamination, held_out, held_out_rule
from mlm.corpus.deduplication import (
    CONTAMINATED,
    KEPT,
    PRECEDENCE,
    Removed,
    removing,
    write_removed,
)
from mlm.corpus.near_clusters import write_near_removed
from mlm.corpus.near_duplicates import SignedCorpus, write_signatures
from mlm.corpus.part_reading import SPLITS, PartFiles, scratch_directory
from mlm.corpus.rule_counts import RuleCount, Taken
from mlm.corpus.split_descriptions import described_splits, refuse_empty_splits
from mlm.corpus.word_overlap import Files, HeldOutRuns, overlap_with
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.atomic import replacing


def deduplicate(parts: Sequence[Path], duplicates: bool, leaks: bool, record: Path) -> None:
    """Find duplicates within a split, leaks between splits, or both.

    `parts` are the records of all parts, in order. Raises MlmError if digests are damaged.
    """
    digests = [PartFiles(part).digests for part in parts]
    for part, path in zip(parts, digests, strict=True):
        check_outputs(part, [path])
    with replacing(record.with_suffix(".numbers")) as path:
        write_removed(digests, path, deduplicate=duplicates, remove_leakage=leaks)
        found = Removed([path], len(digests))
    total = sum(int(found.counts(split).sum()) for split in SPLITS)
    RemovedDocuments(len(digests), total).write(record)


def decontaminate(removed: Sequence[Path], number: int, settings: Mapping, record: Path) -> None:
    """Find the documents of train in part `number` that have words of held-out ones.

    `removed` are the records of `deduplicate`, `settings` are `also` and `words` of the section
    `corpus.filters.decontamination`. All that was read of the held-out splits counts, duplicates
    too. Raises MlmError for more n-grams than a job can hold, and if a spool is damaged.
    """
    corpus, splits = spooled_corpus(removed), held_out(settings)
    known = Decontamination({"words": settings["words"]})
    for split in splits:
        for part, files in enumerate(corpus.files):
            check_outputs(files.record, [files.spool(split)])
            for batch in corpus.read(part, split):
                known.add(held_out_rule(split), batch.column("text").to_pylist())
    check_outputs(corpus.files[number].record, [corpus.files[number].spool("train")])
    counts = {held_out_rule(split): RuleCount() for split in splits}
    verdicts = corpus.verdicts(number, "train")
    kept, found, seen = np.flatnonzero(verdicts == KEPT), [], 0
    for batch in corpus.read(number, "train", verdicts):
        for text in batch.column("text").to_pylist():
            taken: list[Taken] = []
            if known.judged(text, taken)[1]:
                found.append(int(kept[seen]))
                counts[taken[0].rule].add(taken[0])
            seen += 1
    with (
        replacing(record.with_suffix(".numbers")) as path,
        removing(path, len(corpus.parts)) as remove,
    ):
        remove(number, PRECEDENCE.index("train"), found, np.full(len(found), CONTAMINATED))
    rules = {rule: count.record() for rule, count in counts.items()}
    RemovedDocuments(len(corpus.parts), len(found), rules).write(record)


def sign(removed: Sequence[Path], number: int, near: NearDuplicates, record: Path) -> None:
    """Write the signatures of the documents of part `number` that `removed` leaves over.

    `removed` are the records of `deduplicate` and `decontaminate`. Raises MlmError if a spool, or
    a file beside the records, is damaged.
    """
    corpus = spooled_corpus(removed)
    check_outputs(corpus.files[number].record, map(corpus.files[number].spool, SPLITS))
    with (
        replacing(record.with_suffix(".signatures")) as signatures,
        replacing(record.with_suffix(".keys")) as keys,
    ):
        signed = write_signatures(corpus, number, near, signatures, keys)
    SignedPart(signed).write(record)


def cluster(
    removed: Sequence[Path],
    signed: Sequence[Path],
    near: NearDuplicates,
    leaks: bool,
    record: Path,
) -> None:
    """Find the near-duplicates to leave out beside what `removed` names.

    `signed` are the records of `sign`, in order; without `leaks`, they are looked for within a
    split. Raises MlmError if signatures or keys are damaged, and if nearly all would go.
    """
    for own in signed:
        check_outputs(own, [own.with_suffix(".signatures"), own.with_suffix(".keys")])
    corpus = spooled_corpus(removed)
    with (
        scratch_directory(record.with_name(f".{record.stem}-in-progress")) as scratch,
        replacing(record.with_suffix(".numbers")) as path,
    ):
        links = scratch / "links"
        SignedCorpus(corpus.parts, signed, near, leaks).write_links(links)
        found = write_near_removed(corpus, links, near, path, scratch)
    found.write(record)


def spooled_corpus(removed: Sequence[Path], near: Path | None = None) -> SpooledCorpus:
    """The corpus whose parts lie beside `removed`, the records of what is left out.

    `near` is the record of `cluster`, if there is one. Raises MlmError if the numbers beside a
    record are damaged.
    """
    directory, records = removed[0].parent, list(map(RemovedDocuments.read, removed))
    files = [PartFiles.below(directory, number) for number in range(records[0].parts)]
    numbers = [path.with_suffix(".numbers") for path in (*removed, *([near] if near else ()))]
    for path in numbers:
        check_outputs(path.with_suffix(".json"), [path])
    return SpooledCorpus(
        files,
        [ReadPart.read(file.record) for file in files],
        Removed(numbers, len(files)),
        NearDuplicatesRemoved.read(near) if near else None,
        [record.rules for record in records if record.rules is not None],
    )


def write(
    corpus: SpooledCorpus,
    split: str,
    share: int,
    shares: int,
    held_out_files: Mapping[str, Sequence[Path]],
    record: Path,
) -> None:
    """Write Parquet file `share` of `shares` of `split`, and what groups it has.

    `held_out_files` are the records of all files of validation and test, given for train: which of
    their runs of words it shares is written as well. Raises MlmError if a split is left empty, or a
    spool or a file is damaged.
    """
    refuse_empty_splits(corpus)
    runs = HeldOutRuns(map(_written, held_out_files.values())) if held_out_files else None
    with (
        replacing(record.with_suffix(".parquet")) as file,
        replacing(record.with_suffix(".groups")) as groups,
        replacing(record.with_suffix(".shared")) as shared,
    ):
        written = write_share(corpus, split, share, shares, file, groups, runs)
        shared.write_bytes(runs.found().tobytes() if runs else b"")
    written.write(record)


def describe(
    corpus: SpooledCorpus, written: Mapping[str, Sequence[Path]]
) -> dict[str, CorpusSplit]:
    """The descriptions of all splits; `written` are the records of `write`, in order.

    Raises MlmError if the groups tell nothing apart.
    """
    found = [np.fromfile(r.with_suffix(".shared"), np.uint64) for r in written["train"]]
    shared = np.unique(np.concatenate(found))
    overlaps = {s: overlap_with(shared, _written(written[s])) for s in SPLITS if s != "train"}
    files = {split: list(map(WrittenFile.read, records)) for split, records in written.items()}
    groups = {split: [r.with_suffix(".groups") for r in of] for split, of in written.items()}
    return described_splits(corpus, files, groups, overlaps)


def _written(records: Sequence[Path]) -> Files:
    """The Parquet files beside `records`, checked."""
    for record in records:
        check_outputs(record, [record.with_suffix(".parquet")])
    return [(r.with_suffix(".parquet"), WrittenFile.read(r)) for r in records]

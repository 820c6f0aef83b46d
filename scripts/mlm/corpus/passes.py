"""The passes over a source that was read in parts (`part_reading`), up to its Parquet files.

Each writes its record and, beside it, files of the record's name with another ending.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from mlm.config.filters import NearDuplicates
from mlm.corpus.artefacts import (
    NOTHING,
    CorpusFile,
    RemovedDocuments,
    SignedPart,
    TakenByRule,
    WrittenFile,
    add_taken,
)
from mlm.corpus.corpus_writing import CorpusWriter, SpooledCorpus
from mlm.corpus.decontamination import Decontamination, held_out, rule_of
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
from mlm.corpus.shares import document_range, file_name
from mlm.corpus.split_descriptions import refuse_empty_splits
from mlm.corpus.spooling import in_pieces, size_of
from mlm.corpus.word_overlap import HeldOutRuns
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError


def deduplicate(parts: Sequence[Path], duplicates: bool, leaks: bool, record: Path) -> None:
    """Find duplicates within a split, leaks between splits, or both.

    `parts` are the records of all parts. Raises MlmError if digests are damaged.
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

    `settings` are `also` and `words` of `corpus.filters.decontamination`. Held-out duplicates
    count, too. Raises MlmError for more n-grams than a job can hold, and if a spool is damaged.
    """
    corpus, splits = SpooledCorpus(removed), held_out(settings)
    known = Decontamination({"words": settings["words"]})
    for split in splits:
        for part, files in enumerate(corpus.files):
            check_outputs(files.record, [files.spool(split)])
            for batch in corpus.read(part, split):
                known.add(rule_of(split), batch.column("text").to_pylist())
    check_outputs(corpus.files[number].record, [corpus.files[number].spool("train")])
    counts = {rule_of(split): NOTHING for split in splits}
    verdicts = corpus.verdicts(number, "train")
    batches, found = corpus.read(number, "train", verdicts), []
    texts = (text for batch in batches for text in batch.column("text").to_pylist())
    for place, text in zip(np.flatnonzero(verdicts == KEPT).tolist(), texts, strict=True):
        taken: dict[str, TakenByRule] = {}
        if known.judged(text, taken)[1]:
            found.append(place)
            add_taken(counts, taken)
    with (
        replacing(record.with_suffix(".numbers")) as path,
        removing(path, len(corpus.parts)) as remove,
    ):
        remove(number, PRECEDENCE.index("train"), found, np.full(len(found), CONTAMINATED))
    RemovedDocuments(len(corpus.parts), len(found), counts).write(record)


def sign(removed: Sequence[Path], number: int, near: NearDuplicates, record: Path) -> None:
    """Write the signatures of the documents of part `number` that `removed` leaves over.

    Raises MlmError if a spool, or a file beside the records, is damaged.
    """
    corpus = SpooledCorpus(removed)
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

    Without `leaks`, they are looked for within a split. Raises MlmError if signatures or keys are
    damaged, and if nearly all would go.
    """
    for own in signed:
        check_outputs(own, [own.with_suffix(".signatures"), own.with_suffix(".keys")])
    corpus = SpooledCorpus(removed)
    with (
        scratch_directory(record.with_name(f".{record.stem}-in-progress")) as scratch,
        replacing(record.with_suffix(".numbers")) as path,
    ):
        links = scratch / "links"
        SignedCorpus(corpus.parts, signed, near, leaks).write_links(links)
        found = write_near_removed(corpus, links, near, path, scratch)
    found.write(record)


def write(
    corpus: SpooledCorpus,
    split: str,
    share: int,
    shares: int,
    held_out_files: Mapping[str, Sequence[Path]],
    record: Path,
) -> None:
    """Write Parquet file `share` of `shares` of `split`, and what groups it has.

    `held_out_files`, given for train, are the records of validation and test: which of their runs
    of words it shares is written as well. Raises MlmError if a split is left empty or has fewer
    documents than files, or a file is damaged.
    """
    refuse_empty_splits(corpus)
    documents = sum(segment.documents for segment in corpus.segments(split))
    if documents < shares:
        raise MlmError(
            f"{split}: {documents} documents cannot fill {shares} files. Set corpus.count.{split} "
            f"to at most {documents}"
        )
    runs = HeldOutRuns(held_out_files.values()) if held_out_files else None
    wanted, sizes = document_range(documents, share, shares), []
    batches = corpus.batches(split, wanted)
    with (
        replacing(record.with_suffix(".parquet")) as path,
        replacing(record.with_suffix(".groups")) as groups,
        replacing(record.with_suffix(".shared")) as shared,
    ):
        with closing(CorpusWriter(path, corpus.group_by, wanted.start, groups)) as writer:
            for batch in runs.looking_into(batches) if runs else batches:
                sizes += map(size_of, in_pieces(batch.column("text")))
                writer.write(batch)
        shared.write_bytes(runs.found().tobytes() if runs else b"")
        name = file_name(split, share, shares)
        file = CorpusFile(name, len(wanted), path.stat().st_size, file_sha256(path))
    WrittenFile(file, *map(sum, zip(*sizes, strict=True))).write(record)

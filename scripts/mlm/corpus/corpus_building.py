"""The passes over a corpus, from a source to the Parquet files of three splits: parts are read, in
this job or in others, and what they hold is compared and written."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from mlm.config.corpus import UNGROUPED, CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    CorpusSource,
    CorpusSplit,
    Encoding,
    FilesSource,
    MixedSource,
    MixSource,
    ReadPart,
    ReadSplit,
    SingleSource,
)
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.decontamination import HeldOutRuns, decontaminate
from mlm.corpus.deduplication import remove_duplicates, remove_near_duplicates
from mlm.corpus.filters import Filters
from mlm.corpus.groups_and_splits import carve
from mlm.corpus.mixing_and_writing import Segment, WrittenFile, segments, write_file
from mlm.corpus.source_files import Part, SplitFiles
from mlm.corpus.sources import open_source
from mlm.corpus.spooling import REASONS, SpooledCorpus, SpoolWriter
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError
from mlm.foundations.input_checks import check_outputs
from mlm.foundations.terminal import Progress


def read_part(configuration: CorpusConfiguration, part: Part, record: Path) -> None:
    """Clean, filter and count the documents of `part`, and write its `record`, and beside it those
    that remain, by split. Raises MlmError for bad input."""
    source, seed = open_source(configuration, part), configuration.seed
    filters = Filters(configuration.corpus.sources()[part.source].filters)
    signs = configuration.corpus.filters.near_duplicates
    counts, spools = {split: filters.counts() for split in SPLITS}, {}
    progress, size, documents = Progress("reading the corpus", None, "bytes"), 0, 0
    with ExitStack() as together:
        for split in SPLITS:
            file = together.enter_context(replacing(record.with_suffix(f".{split}")))
            spools[split] = together.enter_context(closing(SpoolWriter(file, signs)))
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


def build_corpus(
    configuration: CorpusConfiguration,
    parts: Sequence[Part],
    parquet: SplitFiles,
    described: Mapping[str, str],
    records: Sequence[Path] = (),
    threads: int = 1,
) -> dict[str, CorpusSplit]:
    """Write the corpus of `parts`, or of what other jobs read of them with the `records`, to
    `parquet` and `described`, all by split, and return the descriptions: all outputs, or none.
    Raises MlmError for bad input, damaged files and empty splits."""
    # A fixed name, so that the next run removes what a kill has left behind.
    scratch = Path(parquet["train"][0]).parent / ".corpus-in-progress"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        with ThreadPoolExecutor(threads) as pool, ExitStack() as together:
            if records:
                list(pool.map(_check_part, records))
            else:
                records = [scratch / f"{number:05d}.json" for number in range(len(parts))]
                for part, record in zip(parts, records, strict=True):
                    read_part(configuration, part, record)
            corpus = SpooledCorpus(records)
            _compare(corpus, configuration, scratch, pool)
            order = {split: _order(corpus, split, len(parquet[split])) for split in SPLITS}
            files = {
                split: [together.enter_context(replacing(path)) for path in parquet[split]]
                for split in SPLITS
            }
            descriptions = _written(corpus, order, files, pool)
            for split, path in described.items():
                descriptions[split].write(together.enter_context(replacing(path)))
        return descriptions
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_part(record: Path) -> None:
    check_outputs(record, [record.with_suffix(f".{split}") for split in SPLITS])


def _compare(
    corpus: SpooledCorpus, configuration: CorpusConfiguration, scratch: Path, pool: Executor
) -> None:
    """Remove documents that are like others; refuse empty splits."""
    section, filters = configuration.corpus, configuration.corpus.filters
    remove_duplicates(corpus, filters.deduplicate, filters.remove_leakage)
    if section.decontaminates:
        decontaminate(corpus, section, pool)
    if filters.near_duplicates:
        remove_near_duplicates(corpus, filters.remove_leakage, scratch)
    problems = [_emptied(corpus, split) for split in SPLITS if not _kept(corpus, split)]
    if problems:
        raise MlmError("\n".join(["A split of the corpus is empty.", *problems]))


def _order(corpus: SpooledCorpus, split: str, files: int) -> list[Segment]:
    order = segments(corpus, split)
    if (documents := sum(segment.documents for segment in order)) < files:
        raise MlmError(
            f"{split}: {documents} documents cannot fill {files} files. Set corpus.count to "
            f"{documents} or less"
        )
    return order


def _written(
    corpus: SpooledCorpus,
    order: Mapping[str, list[Segment]],
    files: Mapping[str, Sequence[Path]],
    pool: Executor,
) -> dict[str, CorpusSplit]:
    """Write the Parquet `files` of all splits, and return their descriptions."""
    written: dict[str, list[WrittenFile]] = {}
    held_out: dict[str, tuple[SplitDocuments, int]] = {}
    # Train last: it is compared with what is held out.
    for split in reversed(SPLITS):
        runs = HeldOutRuns(held_out.values()) if split == "train" else None
        shares = [(number, len(files[split])) for number in range(len(files[split]))]
        write = partial(write_file, corpus, order[split], runs)
        written[split] = list(pool.map(write, shares, files[split]))
        documents = [file.file.documents for file in written[split]]
        texts = SplitDocuments(list(zip(files[split], documents, strict=True)))
        held_out[split] = texts, sum(file.words for file in written[split])
    overlaps = {split: runs.overlap(*held_out[split]) for split in SPLITS[1:] if runs}
    splits = {}
    for split in SPLITS:
        documents = sum(file.file.documents for file in written[split])
        groups = set().union(*(file.groups for file in written[split]))
        splits[split] = CorpusSplit(
            split=split,
            source=_source(corpus, split, order[split]),
            documents=documents,
            groups=documents if corpus.group_by == UNGROUPED else len(groups),
            group_by=corpus.group_by,
            bytes=sum(file.bytes for file in written[split]),
            characters=sum(file.characters for file in written[split]),
            words=sum(file.words for file in written[split]),
            filters=_documents_by_reason(corpus, split, range(len(corpus.parts))),
            encoding=sum((part.splits[split].encoding for part in corpus.parts), Encoding()),
            files=tuple(file.file for file in written[split]),
            rules=corpus.rules(split),
            near_duplicates=corpus.near.get(split),
            overlap_with_train=overlaps.get(split),
        )
    _refuse_useless_groups(splits, corpus.parts[0])
    return splits


def _kept(corpus: SpooledCorpus, split: str) -> int:
    return sum(len(corpus.remaining(spool)) for spool in corpus.spools_of(split))


def _documents_by_reason(corpus: SpooledCorpus, split: str, parts: Sequence[int]) -> dict[str, int]:
    """Return how many documents of `split` in `parts` were read, removed by filter, and kept."""
    counts: Counter[str] = Counter()
    for number, part in enumerate(corpus.parts):
        filters = part.splits[split].filters
        counts.update(filters if number in parts else dict.fromkeys(filters, 0))
    verdicts = np.zeros(1 + len(REASONS), np.int64)
    for spool in corpus.spools_of(split):
        if spool.part in parts:
            verdicts += np.bincount(corpus.verdicts[spool.numbers], minlength=len(verdicts))
    kept, *removed = verdicts.tolist()
    by_pass = dict(zip(REASONS, removed, strict=True))
    if not corpus.near:
        del by_pass["near_duplicate"], by_pass["near_leaked"]
    if corpus.contaminated is None:
        del by_pass["decontamination"]
    return counts | by_pass | {"kept": kept}


def _source(corpus: SpooledCorpus, split: str, order: Sequence[Segment]) -> CorpusSource:
    of_parts = [part.splits[split].source for part in corpus.parts]
    mixed = [part.mixed for part in corpus.parts if part.mixed]
    if not mixed:
        return _joined(of_parts)
    sources = []
    for name, weight in dict.fromkeys((source.name, source.weight) for source in mixed):
        numbers = [number for number, source in enumerate(mixed) if source.name == name]
        documents = sum(segment.documents for segment in order if segment.spool.part in numbers)
        source = _joined([of_parts[number] for number in numbers])
        counts = _documents_by_reason(corpus, split, numbers)
        sources.append(MixedSource(name, weight, documents, counts, source))
    carved = next((one.source.carved_from for one in sources if one.source.carved_from), None)
    return MixSource("mix", tuple(sources), carved_from=carved)


def _joined(sources: Sequence[SingleSource]) -> SingleSource:
    files = [source.files for source in sources if isinstance(source, FilesSource)]
    return replace(sources[0], files=sum(files, ())) if files else sources[0]


def _emptied(corpus: SpooledCorpus, split: str) -> str:
    """Return a line on a split of which filters left no document."""
    counts = _documents_by_reason(corpus, split, range(len(corpus.parts)))
    rules, part = corpus.rules(split) or {}, corpus.parts[0]
    by_rule = {f"corpus.filters.{rule}": taken.documents for rule, taken in rules.items()}
    removed = ", ".join(f"{n} {why}" for why, n in (counts | by_rule).items() if n)
    line = f"{split} is left without a document ({removed or 'none was read'})."
    if split not in part.carved:
        return f"{line} Look at corpus.filters and at what was read"
    groups = "" if part.group_by == UNGROUPED else f", in whole groups ({part.group_by})"
    return (
        f"{line} It is carved from train by corpus.held_out.{split}: {part.carved[split]}{groups}; "
        "raise it, use a larger corpus (duplicates do not count), or name texts for the split"
    )


def _refuse_useless_groups(splits: Mapping[str, CorpusSplit], part: ReadPart) -> None:
    """Raise MlmError if the groups tell nothing apart."""
    alone = [name for name, split in splits.items() if split.groups == 1 < split.filters["kept"]]
    are_all = all(split.groups == 1 for split in splits.values())
    if alone and (are_all or not part.carved.keys().isdisjoint(alone)):
        raise MlmError(
            f"The groups ({part.group_by}) are too few or too large: all documents of "
            f"{' and of '.join(alone)} are in one, so that nothing can be resampled. Let "
            "corpus.group_by or corpus.group_per name smaller ones (an article, an author), raise "
            "corpus.held_out, or set group_by and group_per to null"
        )

"""From a source to the Parquet files of three splits: clean, filter, deduplicate, and count all.

In one job here. A large source is read in parts by jobs of their own, with the same functions:
`part_reading`, `deduplication`, `corpus_writing`.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mlm.corpus.artefacts import (
    CorpusSource,
    CorpusSplit,
    Encoding,
    FilesSource,
    ReadPart,
    WrittenFile,
)
from mlm.corpus.corpus_writing import SpooledCorpus, number_of_groups, write_share
from mlm.corpus.deduplication import BUCKETS, Digests, Removed, write_removed
from mlm.corpus.filters import Filters, SplitCounts
from mlm.corpus.groups import OWN
from mlm.corpus.part_reading import SPLITS, PartFiles, read_part, scratch_directory
from mlm.corpus.sources import open_source
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError


def build_corpus(
    settings: dict,
    files: dict[str, list[str]],
    parquet: dict[str, list[str]],
    described: dict[str, str],
) -> dict[str, CorpusSplit]:
    """Write the corpus and return the descriptions of its splits.

    `settings` are those of `corpus.files.used_settings`, `files` the matched files by split,
    `parquet` and `described` the paths of the outputs by split: its files, each with an equal share
    of its documents, and its description. Working files stand beside the first output, and are
    gone afterwards. All outputs appear together, or none.

    Raises MlmError for bad input and for a split that is left without documents.
    """
    filters = Filters(**settings["filters"])
    source = open_source(settings, files)
    beside = Path(parquet["train"][0]).parent
    with scratch_directory(beside / ".corpus-in-progress") as scratch, ExitStack() as together:
        part, removed = PartFiles.below(scratch, 0), scratch / "removed"
        record = read_part(source, filters, settings["seed"], part)
        write_removed(
            [Digests(part.digests, record.digests)],
            range(BUCKETS),
            removed,
            deduplicate=filters.deduplicate,
            remove_leakage=filters.remove_leakage,
        )
        corpus = SpooledCorpus([part], [record], Removed([removed], 1))
        refuse_empty_splits(counts_of(corpus), record)
        written: dict[str, list[WrittenFile]] = {}
        groups: dict[str, list[Path]] = {}
        for split in SPLITS:
            paths = parquet[split]
            groups[split] = [scratch / f"{split}-{share}.groups" for share in range(len(paths))]
            written[split] = [
                write_share(
                    *(corpus, split, share, len(paths), Path(path).name),
                    *(together.enter_context(replacing(path)), groups[split][share]),
                )
                for share, path in enumerate(paths)
            ]
        descriptions = described_splits(corpus, written, groups)
        for split in SPLITS:
            descriptions[split].write(together.enter_context(replacing(described[split])))
    return descriptions


def counts_of(corpus: SpooledCorpus) -> dict[str, SplitCounts]:
    """What became of the documents of each split, so far as it is known before they are written."""
    found = {}
    for split in SPLITS:
        count = found[split] = SplitCounts()
        for part in corpus.parts:
            read = part.splits[split]
            count.filters = {n: v + read.filters[n] for n, v in count.filters.items()}
            count.replaced_bytes += read.encoding.replaced_bytes
            count.nul_bytes += read.encoding.nul_bytes
        duplicate, leaked = corpus.removed.counts(split).sum(axis=0).tolist()
        kept = sum(corpus.kept(split))
        count.filters |= {"duplicate": duplicate, "leaked": leaked, "kept": kept}
    return found


def described_splits(
    corpus: SpooledCorpus,
    written: dict[str, Sequence[WrittenFile]],
    groups: dict[str, Sequence[Path]],
) -> dict[str, CorpusSplit]:
    """The descriptions of all splits, from all that was written.

    `groups` are the files beside those of `written` that say which groups are in them. Raises
    MlmError where the groups tell nothing apart.
    """
    counts, part = counts_of(corpus), corpus.parts[0]
    for split, count in counts.items():
        for file in written[split]:
            count.bytes += file.bytes
            count.characters += file.characters
            count.words += file.words
        own = corpus.group_by == OWN
        count.groups = count.filters["kept"] if own else number_of_groups(groups[split])
    _refuse_one_group(counts, part)
    return {
        split: CorpusSplit(
            split=split,
            source=_together(p.splits[split].source for p in corpus.parts),
            documents=count.filters["kept"],
            groups=count.groups,
            group_by=corpus.group_by,
            bytes=count.bytes,
            characters=count.characters,
            words=count.words,
            filters=count.filters,
            encoding=Encoding(count.replaced_bytes, count.nul_bytes),
            files=tuple(one.file for one in written[split]),
        )
        for split, count in counts.items()
    }


def _together(sources: Iterable[CorpusSource]) -> CorpusSource:
    """What the parts say of their source as one."""
    first, *others = sources
    if not isinstance(first, FilesSource):
        return first
    return replace(first, files=sum((other.files for other in others), first.files))


def refuse_empty_splits(counts: dict[str, SplitCounts], part: ReadPart) -> None:
    """Raise MlmError where a split is left without documents."""
    problems = []
    for split in SPLITS:
        found = counts[split].filters
        if found["kept"]:
            continue
        removed = ", ".join(
            f"{n} {reason}" for reason, n in found.items() if n and reason != "read"
        )
        line = f"{split} is left without a document: {found['read']} read"
        line += f" ({removed})." if removed else "."
        if split in part.carved:
            whole = "" if part.group_by == OWN else f", in whole groups ({part.group_by})"
            line += (
                f" It is carved from train by corpus.held_out.{split}: {part.carved[split]}"
                f"{whole}; raise it, use a larger corpus, or give the split texts of its own"
            )
        else:
            line += " Look at corpus.filters and at what was read"
        problems.append(line)
    if problems:
        raise MlmError("\n".join(["A split of the corpus is empty.", *problems]))


def _refuse_one_group(counts: dict[str, SplitCounts], part: ReadPart) -> None:
    """Raise MlmError where groups tell no documents apart, or one fills a carved split."""
    documents = max(count.filters["kept"] for count in counts.values())
    if documents > 1 and all(count.groups == 1 for count in counts.values()):
        raise MlmError(
            f"The group ({part.group_by}) is one and the same for all documents of each split, "
            "so that nothing can be resampled. Let corpus.group_by or corpus.group_per tell apart "
            "what was written apart (an article, an author), or set them to null"
        )
    alone = [s for s in part.carved if counts[s].groups == 1 < counts[s].filters["kept"]]
    if alone:
        raise MlmError(
            f"The groups ({part.group_by}) are too few or too large: {' and '.join(alone)}, "
            "carved from train by corpus.held_out, would be a single one, beside "
            f"{counts['train'].groups} of train. Raise corpus.held_out, name smaller groups, or "
            "give the split texts of its own"
        )

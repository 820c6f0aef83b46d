"""From a source to the Parquet files of three splits: clean, filter, deduplicate, and count all.

In one job here. A large source is read in parts by jobs of their own, with the same functions:
`part_reading`, `deduplication`, `corpus_writing`.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mlm.corpus.artefacts import (
    CorpusSource,
    CorpusSplit,
    Encoding,
    FilesSource,
    LinkedDocuments,
    NearDuplicates,
    ReadPart,
    RemovedDocuments,
    SignedPart,
    WrittenFile,
)
from mlm.corpus.corpus_writing import SpooledCorpus, number_of_groups, write_share
from mlm.corpus.decontamination import held_out
from mlm.corpus.deduplication import BUCKETS, LEAKED, REASONS, Digests, Removed, write_removed
from mlm.corpus.filters import Filters, SplitCounts
from mlm.corpus.groups import OWN
from mlm.corpus.held_out_overlap import write_overlaps
from mlm.corpus.mixed_sources import described_mix
from mlm.corpus.near_clusters import write_near_removed
from mlm.corpus.near_duplicates import (
    KEY_BUCKETS,
    LINK,
    LinkSettings,
    NearDuplicateSettings,
    SignatureFiles,
    SignatureSettings,
    SignedCorpus,
    write_signatures,
)
from mlm.corpus.part_reading import SPLITS, PartFiles, read_part, scratch_directory
from mlm.corpus.parts import PARTITIONS, whole
from mlm.corpus.shares import document_range
from mlm.corpus.sources import open_source
from mlm.corpus.word_overlap import HeldOutRuns
from mlm.foundations.artefacts import MadeFrom, check_outputs
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError

#: Of the documents of train, the share that decontamination may take.
MOST_SHARED = 0.9


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
    source = open_source(settings, whole(files))
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
        corpus, left_out = SpooledCorpus([part], [record], Removed([removed], 1)), [removed]
        if held_out(filters.decontamination):
            left_out.append(overlaps := scratch / "overlaps")
            place = scratch / "verdicts"
            rules = write_overlaps(corpus, [0], filters.decontamination, overlaps, place)
            corpus = replace(corpus, removed=Removed(left_out, 1), overlaps=[rules])
        if near := NearDuplicateSettings.of(filters):
            corpus = _without_near_duplicates(corpus, left_out, near, scratch)
        refuse_empty_splits(corpus)
        written: dict[str, list[WrittenFile]] = {}
        groups: dict[str, list[Path]] = {}
        places: dict[str, list[Path]] = {}
        runs = None
        # Train last: what it has in common with the others is noted as it is written.
        for split in reversed(SPLITS):
            places[split] = [together.enter_context(replacing(path)) for path in parquet[split]]
            shares = len(places[split])
            groups[split] = [scratch / f"{split}-{share}.groups" for share in range(shares)]
            if split == "train":
                runs = HeldOutRuns(
                    {s: list(zip(places[s], written[s], strict=True)) for s in written}
                )
            written[split] = [
                write_share(corpus, split, share, shares, path, groups[split][share], runs)
                for share, path in enumerate(places[split])
            ]
        descriptions = described_splits(corpus, written, groups, runs)
        for split in SPLITS:
            descriptions[split].write(together.enter_context(replacing(described[split])))
    return descriptions


def deduplicate_partition(
    records: Sequence[Path], partition: int, filters: Filters, removed: Path
) -> RemovedDocuments:
    """Write to `removed` which documents are left out by the digests of partition `partition`.

    `records` are those of all parts, in order. Raises MlmError where digests are damaged.
    """
    digests = []
    for number, record in enumerate(records):
        files = PartFiles.below(record.parent, number)
        check_outputs(record, [files.digests])
        digests.append(Digests(files.digests, ReadPart.read(record).digests))
    with replacing(removed) as path:
        write_removed(
            digests,
            document_range(BUCKETS, partition, PARTITIONS),
            path,
            deduplicate=filters.deduplicate,
            remove_leakage=filters.remove_leakage,
        )
        found = Removed([path], len(digests))
    total = sum(int(found.counts(split).sum()) for split in SPLITS)
    return RemovedDocuments(partition, len(digests), total)


def decontaminate_part(
    removed: Sequence[Path], number: int, settings: Mapping, overlaps: Path
) -> RemovedDocuments:
    """Write to `overlaps` which documents of train in part `number` have words of held-out ones.

    `removed` are the records of `deduplicate_partition`, `settings` as of `write_overlaps`. Raises
    MlmError where a spool is damaged.
    """
    corpus = spooled_corpus(removed)
    for split in held_out(settings):
        for files in corpus.files:
            check_outputs(files.record, [files.spools[split]])
    check_outputs(corpus.files[number].record, [corpus.files[number].spools["train"]])
    with replacing(overlaps) as path:
        verdicts = overlaps.with_name(f".{overlaps.name}-verdicts")
        rules = write_overlaps(corpus, [number], settings, path, verdicts)
    taken = sum(rule.documents for rule in rules.values())
    return RemovedDocuments(number, len(corpus.parts), taken, rules)


def _without_near_duplicates(
    corpus: SpooledCorpus,
    removed: Sequence[Path],
    settings: NearDuplicateSettings,
    scratch: Path,
) -> SpooledCorpus:
    """`corpus`, of one part and without what `removed` name, without its near-duplicates too."""
    files = SignatureFiles.below(scratch, 0)
    links, near = scratch / "links", scratch / "near"
    write_signatures(corpus.files[0], 0, corpus.removed, settings, files.signatures, files.keys)
    signed = SignedCorpus(corpus.parts, [files], settings)
    signed.write_links(range(KEY_BUCKETS), links)
    found = write_near_removed(corpus, [links], settings, near, scratch)
    return replace(corpus, removed=Removed([*removed, near], 1), near=found)


def sign_part(
    removed: Sequence[Path], number: int, settings: SignatureSettings, files: SignatureFiles
) -> SignedPart:
    """Write `files` for the documents of part `number` that `removed` leaves over.

    `removed` are the records of `deduplicate_partition`. Raises MlmError where a spool, or a file
    beside the records, is damaged.
    """
    corpus = spooled_corpus(removed)
    part = corpus.files[number]
    check_outputs(part.record, part.spools.values())
    with replacing(files.signatures) as signatures, replacing(files.keys) as keys:
        signed = write_signatures(part, number, corpus.removed, settings, signatures, keys)
    return SignedPart(signed)


def link_partition(
    records: Sequence[Path], partition: int, settings: LinkSettings, links: Path
) -> LinkedDocuments:
    """Write to `links` the near-duplicates among the documents with a key of `partition` in common.

    `records` are those of all parts, in order, as `read_part` wrote them. Raises MlmError where
    signatures or keys are damaged.
    """
    directory = records[0].parent
    files = [SignatureFiles.below(directory, number) for number in range(len(records))]
    for own in files:
        check_outputs(own.record, [own.signatures, own.keys])
    signed = SignedCorpus([ReadPart.read(record) for record in records], files, settings)
    with replacing(links) as path:
        signed.write_links(document_range(KEY_BUCKETS, partition, PARTITIONS), path)
        size = path.stat().st_size // LINK.itemsize
    return LinkedDocuments(partition, size)


def cluster(
    removed: Sequence[Path], links: Sequence[Path], settings: NearDuplicateSettings, near: Path
) -> NearDuplicates:
    """Write to `near` which near-duplicates are left out beside what `removed` names.

    `removed` are the records of `deduplicate_partition`, `links` is what `link_partition` wrote.
    Raises MlmError where nearly all would go.
    """
    scratch = near.with_name(f".{near.stem}-in-progress")
    with scratch_directory(scratch) as directory, replacing(near) as path:
        return write_near_removed(spooled_corpus(removed), links, settings, path, directory)


def spooled_corpus(removed: Sequence[str | Path], near: str | Path | None = None) -> SpooledCorpus:
    """The corpus whose parts lie beside `removed`, the records of `deduplicate_partition` and of
    `decontaminate_part`.

    `near` is the record of `cluster` beside them, where there is one. Raises
    MlmError where the numbers beside a record are damaged.
    """
    directory = Path(removed[0]).parent
    parts = RemovedDocuments.read(removed[0]).parts
    numbers = [_numbers(Path(record)) for record in removed]
    files = [PartFiles.below(directory, number) for number in range(parts)]
    records = [ReadPart.read(file.record) for file in files]
    overlaps = [found for r in removed if (found := RemovedDocuments.read(r).rules) is not None]
    if not near:
        return SpooledCorpus(files, records, Removed(numbers, parts), None, overlaps)
    removals = Removed([*numbers, _numbers(Path(near))], parts)
    return SpooledCorpus(files, records, removals, NearDuplicates.read(near), overlaps)


def _numbers(record: Path) -> Path:
    """The file beside `record` that says which documents are left out, checked against it."""
    numbers = record.with_suffix(".numbers")
    check_outputs(record, [numbers])
    return numbers


def written_held_out(files: Mapping[str, Sequence[Path]]) -> HeldOutRuns:
    """The 13-grams of held-out `files` that `write_share` wrote, by split.

    Raises MlmError if one is not what its record says.
    """
    for paths in files.values():
        for path in paths:
            check_outputs(path.with_suffix(".json"), [path])
    return HeldOutRuns(
        {s: [(p, WrittenFile.read(p.with_suffix(".json"))) for p in of] for s, of in files.items()}
    )


def take_over(
    directory: Path, parquet: dict[str, list[str]], described: dict[str, str], threads: int
) -> tuple[dict[str, CorpusSplit], dict[str, str]]:
    """Make what the jobs of all parts wrote below `directory` the corpus, and describe it.

    Outputs as of `build_corpus`; beside the descriptions, the sha256 of each Parquet file by its
    path. So many files as `threads` are checked at a time. Raises MlmError where one is not what
    was written.
    """
    descriptions = {s: CorpusSplit.read(directory / f"{s}.json") for s in described}
    written = {}
    for split, description in descriptions.items():
        shares = len(description.files)
        for share, path in enumerate(parquet[split]):
            name = f"{split}-{share:05d}-of-{shares:05d}.parquet"
            written[path] = directory / "written" / name

    def checked(file: Path) -> dict[str, str]:
        return check_outputs(file.with_suffix(".json"), [file])

    with ThreadPoolExecutor(threads) as pool:
        found = dict(zip(written, pool.map(checked, written.values()), strict=True))
    digests = {path: sha256 for path, own in found.items() for sha256 in own.values()}
    with ExitStack() as together:
        for path, file in written.items():
            _link(file, together.enter_context(replacing(path)))
        for split, path in described.items():
            own = replace(descriptions[split], made_from=MadeFrom())
            own.write(together.enter_context(replacing(path)))
    # What a kill left behind of jobs that were then run again.
    for left in directory.rglob(".*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return descriptions, digests


def remove_other_parts(directory: Path, current: str | None) -> None:
    """Remove what a kill left below `directory` that read the source in another number of parts.

    `current` is that of the corpus that is there now, in five digits; None: one job made it.
    """
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


def counts_of(corpus: SpooledCorpus, parts: Sequence[int] | None = None) -> dict[str, SplitCounts]:
    """What became of the documents of each split, so far as it is known before they are written.

    Of all parts, or of `parts` alone.
    """
    found = {}
    wanted = list(range(len(corpus.parts)) if parts is None else parts)
    for split in SPLITS:
        reasons = dict.fromkeys(n for part in corpus.parts for n in part.splits[split].filters)
        count = found[split] = SplitCounts(dict.fromkeys(reasons, 0))
        for part in wanted:
            read = corpus.parts[part].splits[split]
            count.filters = {n: v + read.filters.get(n, 0) for n, v in count.filters.items()}
            count.replaced_bytes += read.encoding.replaced_bytes
            count.nul_bytes += read.encoding.nul_bytes
        removed = corpus.removed.counts(split)[wanted].sum(axis=0).tolist()
        every = corpus.kept(split)
        by_reason = dict(zip(REASONS, removed, strict=True))
        # Beside what their own job took for texts that are known at once.
        overlaps = by_reason.pop("decontamination")
        if overlaps:
            count.filters["decontamination"] = count.filters.get("decontamination", 0) + overlaps
        if corpus.near is None:
            by_reason = {name: by_reason[name] for name in REASONS[:LEAKED]}
        count.filters |= by_reason
        count.filters["kept"] = sum(every[part] for part in wanted)
    return found


def described_splits(
    corpus: SpooledCorpus,
    written: dict[str, Sequence[WrittenFile]],
    groups: dict[str, Sequence[Path]],
    runs: HeldOutRuns,
) -> dict[str, CorpusSplit]:
    """The descriptions of all splits, from all that was written.

    `groups` are the files beside those of `written` that say which groups are in them, `runs`
    knows what all of train has in common with the other splits. Raises
    MlmError where the groups tell nothing apart.
    """
    counts, part = counts_of(corpus), corpus.parts[0]
    documents: dict[str, int] = {}
    for split, count in counts.items():
        for file in written[split]:
            count.bytes += file.bytes
            count.characters += file.characters
            count.words += file.words
        documents[split] = sum(file.file.documents for file in written[split])
        own = corpus.group_by == OWN
        count.groups = documents[split] if own else number_of_groups(groups[split])
    _refuse_one_group(counts, part)
    return {
        split: CorpusSplit(
            split=split,
            source=_described(corpus, split),
            documents=documents[split],
            groups=count.groups,
            group_by=corpus.group_by,
            bytes=count.bytes,
            characters=count.characters,
            words=count.words,
            filters=count.filters,
            encoding=Encoding(count.replaced_bytes, count.nul_bytes),
            files=tuple(one.file for one in written[split]),
            rules=corpus.rules(split),
            near_duplicates=corpus.near.splits[split] if corpus.near else None,
            overlap_with_train=None if split == "train" else runs.overlap(split),
        )
        for split, count in counts.items()
    }


def _described(corpus: SpooledCorpus, split: str) -> CorpusSource:
    if corpus.parts[0].mixed is None:
        return _together(part.splits[split].source for part in corpus.parts)

    def filters(numbers: Sequence[int]) -> dict[str, int]:
        return counts_of(corpus, numbers)[split].filters

    return described_mix(corpus.parts, filters, corpus.segments(split), split, _together)


def _together(sources: Iterable[CorpusSource]) -> CorpusSource:
    """What the parts say of their source as one."""
    first, *others = sources
    if not isinstance(first, FilesSource):
        return first
    return replace(first, files=sum((other.files for other in others), first.files))


def refuse_empty_splits(corpus: SpooledCorpus) -> None:
    """Raise MlmError where a split is left without documents, with the filter that took most.

    Or where decontamination took more than the share MOST_SHARED of it.
    """
    problems, counts, part = [], counts_of(corpus), corpus.parts[0]
    for split in SPLITS:
        found = counts[split].filters
        if found["kept"]:
            shared = found.get("decontamination", 0)
            if shared > MOST_SHARED * found["read"]:
                problems.append(
                    f"{split}: {shared:,} of {found['read']:,} documents have words in a row in "
                    "common with the texts of corpus.filters.decontamination; at most the share "
                    f"{MOST_SHARED} is expected. Look at these texts, or raise words"
                )
            continue
        removed = {n: count for n, count in found.items() if count and n != "read"}
        line = f"{split} is left without a document: {found['read']} read"
        line += f" ({', '.join(f'{n} {why}' for why, n in removed.items())})." if removed else "."
        rules = corpus.rules(split) or {}
        most = max(rules, key=lambda rule: rules[rule].documents, default=None)
        if most and rules[most].documents:
            line += (
                f" Of the rules, corpus.filters.{most} took most: {rules[most].documents}. Turn it "
                "off or give it another threshold."
            )
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
        raise MlmError("\n".join(["A split of the corpus is empty, or nearly.", *problems]))


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

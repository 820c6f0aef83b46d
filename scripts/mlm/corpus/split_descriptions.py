"""What the corpus stage says of each split, and what it refuses: empty ones, and useless groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mlm.corpus.artefacts import (
    CorpusSource,
    CorpusSplit,
    Encoding,
    FilesSource,
    ReadPart,
    WordOverlap,
    WrittenFile,
)
from mlm.corpus.corpus_writing import SpooledCorpus, number_of_groups
from mlm.corpus.deduplication import LEAKED, REASONS
from mlm.corpus.filters import SplitCounts
from mlm.corpus.groups import OWN
from mlm.corpus.mix import described_mix
from mlm.corpus.part_reading import SPLITS
from mlm.foundations.errors import MlmError

#: Of the documents of train, the share that decontamination may take.
MOST_SHARED = 0.9


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
    overlaps: Mapping[str, WordOverlap],
) -> dict[str, CorpusSplit]:
    """The descriptions of all splits, from all that was written.

    `groups` are the files beside those of `written` that say which groups are in them, `overlaps`
    what the held-out splits have in common with train. Raises MlmError if the groups tell nothing
    apart.
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
            overlap_with_train=overlaps.get(split),
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

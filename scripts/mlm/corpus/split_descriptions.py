"""The description of each split of the corpus; empty splits and useless groups are refused."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlm.config.corpus import UNGROUPED
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    CorpusSource,
    CorpusSplit,
    Encoding,
    FilesSource,
    MixedSource,
    MixSource,
    ReadPart,
    WrittenFile,
)
from mlm.corpus.deduplication import REASONS
from mlm.corpus.spooling import SpooledCorpus
from mlm.corpus.word_overlap import overlap_with
from mlm.foundations.errors import MlmError


def documents_by_reason(
    corpus: SpooledCorpus, split: str, parts: Sequence[int] | None = None
) -> dict[str, int]:
    """Return how many documents of `split` in `parts` (None: all) were read, removed by each
    filter, and kept."""
    numbers = range(len(corpus.parts)) if parts is None else parts
    counts: Counter[str] = Counter()
    for number, part in enumerate(corpus.parts):
        filters = part.splits[split].filters
        counts.update(filters if number in numbers else dict.fromkeys(filters, 0))
    removed = corpus.removed.counts(split)[list(numbers)].sum(axis=0).tolist()
    by_pass = dict(zip(REASONS, removed, strict=True))
    if corpus.near is None:
        del by_pass["near_duplicate"], by_pass["near_leaked"]
    if not corpus.is_decontaminated:
        del by_pass["decontamination"]
    remaining = corpus.remaining(split)
    return counts | by_pass | {"kept": sum(remaining[number] for number in numbers)}


def described_splits(
    corpus: SpooledCorpus, written: Mapping[str, Sequence[Path]]
) -> dict[str, CorpusSplit]:
    """Return the descriptions of all splits; `written` are the records of `write_file`, in order.
    Raises MlmError if the groups tell nothing apart."""
    shared, splits = _union(written["train"], ".shared", np.uint64), {}
    for split in SPLITS:
        files = list(map(WrittenFile.read, written[split]))
        documents = sum(file.file.documents for file in files)
        groups = _union(written[split], ".groups", np.int64)
        splits[split] = CorpusSplit(
            split=split,
            source=_source(corpus, split),
            documents=documents,
            groups=documents if corpus.group_by == UNGROUPED else len(groups),
            group_by=corpus.group_by,
            bytes=sum(file.bytes for file in files),
            characters=sum(file.characters for file in files),
            words=sum(file.words for file in files),
            filters=documents_by_reason(corpus, split),
            encoding=sum((part.splits[split].encoding for part in corpus.parts), Encoding()),
            files=tuple(file.file for file in files),
            rules=corpus.rules(split),
            near_duplicates=corpus.near[split] if corpus.near else None,
            overlap_with_train=None if split == "train" else overlap_with(shared, written[split]),
        )
    _refuse_useless_groups(splits, corpus.parts[0])
    return splits


def _union(records: Sequence[Path], ending: str, kind: type) -> np.ndarray:
    """Return the different values in the files beside `records`, sorted."""
    values = [np.fromfile(record.with_suffix(ending), kind) for record in records]
    return np.unique(np.concatenate(values))


def _source(corpus: SpooledCorpus, split: str) -> CorpusSource:
    parts = corpus.parts
    if parts[0].mixed is None:
        return _joined(part.splits[split].source for part in parts)
    sources, segments = [], corpus.segments(split)
    for name in dict.fromkeys(part.mixed.name for part in parts):
        numbers = [number for number, part in enumerate(parts) if part.mixed.name == name]
        documents = sum(segment.documents for segment in segments if segment.part in numbers)
        source = _joined(parts[number].splits[split].source for number in numbers)
        counts = documents_by_reason(corpus, split, numbers)
        weight = parts[numbers[0]].mixed.weight
        sources.append(MixedSource(name, weight, documents, counts, source))
    carved = next((one.source.carved_from for one in sources if one.source.carved_from), None)
    return MixSource("mix", tuple(sources), carved_from=carved)


def _joined(sources: Iterable[CorpusSource]) -> CorpusSource:
    first, *others = sources
    if not isinstance(first, FilesSource):
        return first
    return replace(first, files=sum((other.files for other in others), first.files))


def refuse_empty_splits(corpus: SpooledCorpus) -> None:
    """Raise MlmError if filters left no document of a split."""
    problems = [_emptied(corpus, split) for split in SPLITS]
    if any(problems):
        lines = ["A split of the corpus is empty.", *filter(None, problems)]
        raise MlmError("\n".join(lines))


def _emptied(corpus: SpooledCorpus, split: str) -> str | None:
    counts, part, rules = documents_by_reason(corpus, split), corpus.parts[0], corpus.rules(split)
    if counts["kept"]:
        return None
    removed = ", ".join(f"{n} {why}" for why, n in counts.items() if n and why != "read")
    line = f"{split} is left without a document: {counts['read']} read"
    line += f" ({removed})." if removed else "."
    most = max(rules or (), key=lambda rule: rules[rule].documents, default=None)
    if most and (taken := rules[most].documents):
        line += f" Of the rules, corpus.filters.{most} took most: {taken}."
    if split not in part.carved:
        return f"{line} Look at corpus.filters and at what was read"
    splits = [documents_by_reason(corpus, name) for name in SPLITS]
    read, duplicates = (sum(one[key] for one in splits) for key in ("read", "duplicate"))
    if 2 * duplicates > read:
        return (
            f"{line} {duplicates:,} of {read:,} documents are duplicates of others, and what is "
            "left does not suffice for three splits. Use a corpus with more different documents"
        )
    groups = "" if part.group_by == UNGROUPED else f", in whole groups ({part.group_by})"
    return (
        f"{line} It is carved from train by corpus.held_out.{split}: {part.carved[split]}{groups}; "
        "raise it, use a larger corpus, or give the split texts of its own"
    )


def _refuse_useless_groups(splits: Mapping[str, CorpusSplit], part: ReadPart) -> None:
    documents = max(split.filters["kept"] for split in splits.values())
    if documents > 1 and all(split.groups == 1 for split in splits.values()):
        raise MlmError(
            f"The group ({part.group_by}) is one and the same for all documents of each split, "
            "so that nothing can be resampled. Let corpus.group_by or corpus.group_per tell apart "
            "what was written apart (an article, an author), or set them to null"
        )
    alone = [s for s in part.carved if splits[s].groups == 1 < splits[s].filters["kept"]]
    if alone:
        raise MlmError(
            f"The groups ({part.group_by}) are too few or too large: {' and '.join(alone)}, "
            "carved from train, would be a single one. Raise corpus.held_out, name smaller groups, "
            "or give the split texts of its own"
        )

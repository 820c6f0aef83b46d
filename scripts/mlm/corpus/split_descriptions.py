"""What the corpus stage says of each split, and what it refuses: empty ones, and useless groups."""

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
    """How many documents of `split` in `parts` (None: all) were read, left out, and kept."""
    numbers = list(range(len(corpus.parts)) if parts is None else parts)
    counts = {reason: 0 for part in corpus.parts for reason in part.splits[split].filters}
    for number in numbers:
        for reason, count in corpus.parts[number].splits[split].filters.items():
            counts[reason] += count
    removed = corpus.removed.counts(split)[numbers].sum(axis=0).tolist()
    by_reason = dict(zip(REASONS, removed, strict=True))
    passes = {"near_duplicate": corpus.near is not None, "near_leaked": corpus.near is not None}
    passes["decontamination"] = corpus.is_decontaminated
    by_reason = {name: count for name, count in by_reason.items() if passes.get(name, True)}
    kept = corpus.kept(split)
    return counts | by_reason | {"kept": sum(kept[number] for number in numbers)}


def described_splits(
    corpus: SpooledCorpus, written: Mapping[str, Sequence[Path]]
) -> dict[str, CorpusSplit]:
    """The descriptions of all splits; `written` are the records of `write_file`, in order. Raises
    MlmError if the groups tell nothing apart."""
    shared, splits = _together_of(written["train"], ".shared", np.uint64), {}
    for split in SPLITS:
        read = [part.splits[split].encoding for part in corpus.parts]
        files = list(map(WrittenFile.read, written[split]))
        documents = sum(file.file.documents for file in files)
        groups = _together_of(written[split], ".groups", np.int64)
        splits[split] = CorpusSplit(
            split=split,
            source=_described(corpus, split),
            documents=documents,
            groups=documents if corpus.group_by == UNGROUPED else len(groups),
            group_by=corpus.group_by,
            bytes=sum(file.bytes for file in files),
            characters=sum(file.characters for file in files),
            words=sum(file.words for file in files),
            filters=documents_by_reason(corpus, split),
            encoding=sum(read, Encoding()),
            files=tuple(file.file for file in files),
            rules=corpus.rules(split),
            near_duplicates=corpus.near[split] if corpus.near else None,
            overlap_with_train=None if split == "train" else overlap_with(shared, written[split]),
        )
    _refuse_useless_groups(splits, corpus.parts[0])
    return splits


def _together_of(records: Sequence[Path], ending: str, kind: type) -> np.ndarray:
    """What the files beside `records` name, each once, sorted."""
    found = [np.fromfile(record.with_suffix(ending), kind) for record in records]
    return np.unique(np.concatenate(found))


def _described(corpus: SpooledCorpus, split: str) -> CorpusSource:
    parts = corpus.parts
    if parts[0].mixed is None:
        return _together(part.splits[split].source for part in parts)
    sources, written = [], corpus.segments(split)
    for name in dict.fromkeys(part.mixed.name for part in parts):
        numbers = [number for number, part in enumerate(parts) if part.mixed.name == name]
        taken = sum(segment.documents for segment in written if segment.part in numbers)
        source = _together(parts[number].splits[split].source for number in numbers)
        counts = documents_by_reason(corpus, split, numbers)
        weight = parts[numbers[0]].mixed.weight
        sources.append(MixedSource(name, weight, taken, counts, source))
    carved = next((one.source.carved_from for one in sources if one.source.carved_from), None)
    return MixSource("mix", tuple(sources), carved_from=carved)


def _together(sources: Iterable[CorpusSource]) -> CorpusSource:
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
    found, part, rules = documents_by_reason(corpus, split), corpus.parts[0], corpus.rules(split)
    if found["kept"]:
        return None
    removed = ", ".join(f"{n} {why}" for why, n in found.items() if n and why != "read")
    line = f"{split} is left without a document: {found['read']} read"
    line += f" ({removed})." if removed else "."
    most = max(rules or (), key=lambda rule: rules[rule].documents, default=None)
    if most and (taken := rules[most].documents):
        line += f" Of the rules, corpus.filters.{most} took most: {taken}."
    if split not in part.carved:
        return f"{line} Look at corpus.filters and at what was read"
    counts = [documents_by_reason(corpus, name) for name in SPLITS]
    read, same = (sum(one[key] for one in counts) for key in ("read", "duplicate"))
    if 2 * same > read:
        return (
            f"{line} {same:,} of {read:,} documents are duplicates of others, and what is left "
            "does not suffice for three splits. Use a corpus with more different documents"
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

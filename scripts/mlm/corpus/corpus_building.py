"""From a source to three parquet files: clean, filter, deduplicate, and count everything.

Two passes, in memory bounded by a batch: the first reads the source once, applies what a
document decides by itself and spools the rest to disk beside a digest of each; the second
writes what is neither duplicate nor leak. All outputs appear together, or none.
"""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from mlm.corpus.artefacts import CorpusSplit, Encoding
from mlm.corpus.deduplication import DUPLICATE, KEPT, LEAKED, DigestBuckets
from mlm.corpus.filters import Filters, SplitCounts
from mlm.corpus.groups import OWN
from mlm.corpus.sources import Source, open_source
from mlm.corpus.splitting import carve
from mlm.corpus.spooling import CorpusWriter, Spool, batch_sizes
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError

SPLITS = ("train", "validation", "test")


def build_corpus(
    settings: dict,
    files: dict[str, list[str]],
    parquet: dict[str, str],
    described: dict[str, str],
) -> dict[str, SplitCounts]:
    """Write the corpus and return its counts by split.

    `settings` are those of `corpus.files.used_settings`, `files` the matched files by split,
    `parquet` and `described` the paths of the outputs by split. Working files stand beside
    the first output, and are gone afterwards.

    Raises MlmError for bad input and for a split that is left without documents.
    """
    source = open_source(settings, files)
    filters = Filters(**settings["filters"])
    counts = {split: SplitCounts() for split in SPLITS}
    with _scratch(Path(parquet["train"]).parent / ".corpus-in-progress") as scratch:
        spools = {split: Spool(scratch / f"{split}.arrow") for split in SPLITS}
        buckets = DigestBuckets(scratch / "digests")
        _read(source, filters, settings["seed"], counts, spools, buckets)
        verdicts = buckets.verdicts(filters.deduplicate, filters.remove_leakage)
        with ExitStack() as together:
            for split in SPLITS:
                path = together.enter_context(replacing(parquet[split]))
                writer = CorpusWriter(path, source.group_by)
                _write(writer, spools[split], verdicts[split], counts[split])
            _refuse_empty_splits(counts, source)
            _refuse_one_group(counts, source)
            for split in SPLITS:
                path = together.enter_context(replacing(described[split]))
                _described(split, source, counts[split]).write(path)
    return counts


@contextmanager
def _scratch(directory: Path) -> Iterator[Path]:
    # A fixed name, so that what a kill has left behind is removed by the next run.
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _read(
    source: Source,
    filters: Filters,
    seed: int | None,
    counts: dict[str, SplitCounts],
    spools: dict[str, Spool],
    buckets: DigestBuckets,
) -> None:
    """The first pass: every document counted, and spooled unless it is refused by itself."""
    progress = _Progress(source)
    for own_split, stream in source.streams.items():
        shares = source.carved if own_split == "train" else {}
        for raw, group in stream():
            text, replaced, nul = filters.prepared(raw)
            document = text.encode("utf-8")
            # What belongs together stays on one side.
            key = document if group is None else group.encode("utf-8")
            split = carve(key, seed, shares) if shares else own_split
            count = counts[split]
            count.filters["read"] += 1
            count.replaced_bytes += replaced
            count.nul_bytes += nul
            refusal = filters.refusal(text)
            if refusal:
                count.filters[refusal] += 1
            else:
                spools[split].add(document, len(text.split()), group)
                buckets.add(split, document)
            progress.advance(len(document))
    for spool in spools.values():
        spool.close()
    progress.finish()


def _write(writer: CorpusWriter, spool: Spool, verdicts, counts: SplitCounts) -> None:
    """The second pass over one split: what is kept goes to `writer`, and is counted."""
    start = 0
    try:
        for batch in spool.batches():
            verdict = verdicts[start : start + batch.num_rows]
            start += batch.num_rows
            counts.filters["duplicate"] += int((verdict == DUPLICATE).sum())
            counts.filters["leaked"] += int((verdict == LEAKED).sum())
            kept = batch.filter(pa.array(verdict == KEPT))
            counts.filters["kept"] += kept.num_rows
            sizes = batch_sizes(kept)
            counts.bytes += sizes[0]
            counts.characters += sizes[1]
            counts.words += sizes[2]
            writer.write(kept)
        counts.groups = writer.groups
    finally:
        writer.close()


def _refuse_empty_splits(counts: dict[str, SplitCounts], source: Source) -> None:
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
        if split in source.carved:
            whole = "" if source.group_by == OWN else f", in whole groups ({source.group_by})"
            line += (
                f" It is carved from train by corpus.held_out.{split}: {source.carved[split]}"
                f"{whole}; raise it, use a larger corpus, or give the split texts of its own"
            )
        else:
            line += " Look at corpus.filters and at what was read"
        problems.append(line)
    if problems:
        raise MlmError("\n".join(["A split of the corpus is empty.", *problems]))


def _refuse_one_group(counts: dict[str, SplitCounts], source: Source) -> None:
    """Raise MlmError where groups tell no documents apart, or one fills a carved split."""
    documents = max(count.filters["kept"] for count in counts.values())
    if documents > 1 and all(count.groups == 1 for count in counts.values()):
        raise MlmError(
            f"The group ({source.group_by}) is one and the same for all documents of each split, "
            "so that nothing can be resampled. Let corpus.group_by or corpus.group_per tell apart "
            "what was written apart (an article, an author), or set them to null"
        )
    alone = [s for s in source.carved if counts[s].groups == 1 < counts[s].filters["kept"]]
    if alone:
        raise MlmError(
            f"The groups ({source.group_by}) are too few or too large: {' and '.join(alone)}, "
            "carved from train by corpus.held_out, would be a single one, beside "
            f"{counts['train'].groups} of train. Raise corpus.held_out, name smaller groups, or "
            "give the split texts of its own"
        )


def _described(split: str, source: Source, counts: SplitCounts) -> CorpusSplit:
    return CorpusSplit(
        split=split,
        source=source.described[split],
        documents=counts.filters["kept"],
        groups=counts.groups,
        group_by=source.group_by,
        bytes=counts.bytes,
        characters=counts.characters,
        words=counts.words,
        filters=counts.filters,
        encoding=Encoding(counts.replaced_bytes, counts.nul_bytes),
    )


class _Progress:
    """A line every few seconds: documents, rate, and the time left where it can be told."""

    INTERVAL = 5.0

    def __init__(self, source: Source):
        self._source = source
        self._start = self._shown = time.monotonic()
        self._documents = self._bytes = 0

    def advance(self, size: int) -> None:
        self._documents += 1
        self._bytes += size
        if self._documents % 256 == 0 and time.monotonic() - self._shown > self.INTERVAL:
            self._shown = time.monotonic()
            self._show(self._source.progress())

    def finish(self) -> None:
        self._show(None)

    def _show(self, share: float | None) -> None:
        seconds = max(time.monotonic() - self._start, 1e-3)
        rate = self._bytes / 1e6 / seconds
        left = f", {seconds * (1 - share) / share:.0f} s left" if share else ""
        print(
            f"corpus: {self._documents:,} documents read, {self._bytes / 1e6:.1f} MB, "
            f"{rate:.1f} MB/s{left}",
            file=sys.stderr,
        )

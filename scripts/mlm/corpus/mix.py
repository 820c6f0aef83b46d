"""The order and number of documents of several weighted sources (`corpus.mix`).

With weight 2.3, every document of train is used twice, and three in ten a third time: of every
1,024 in a row, those with the lowest keyed hashes. Held-out splits have each once.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from mlm.corpus.document_groups import keyed_hash
from mlm.corpus.spooling import Spool, SpooledCorpus
from mlm.foundations.errors import MlmError

_BLOCK = 1024


def chosen_documents(total: int, share: Fraction, key: int) -> np.ndarray:
    """Return which of `total` documents are in a share of them, bool [total]."""
    chosen = np.zeros(total, bool)
    for start in range(0, total, _BLOCK):
        end = min(start + _BLOCK, total)
        order = np.argsort(_hashes(np.arange(start, end), key), kind="stable")
        count = math.floor(end * share) - math.floor(start * share)
        chosen[start + order[:count]] = True
    return chosen


def _hashes(numbers: np.ndarray, key: int) -> np.ndarray:
    """Return 64 bits for each of `numbers`, by SplitMix64 (Steele et al., 2014)."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Segment:
    """So many `documents` of a spool, written one after the other: all that remain, or those that
    `chosen`, bool, says."""

    spool: Spool
    documents: int
    chosen: np.ndarray | None = None


def segments(corpus: SpooledCorpus, split: str) -> list[Segment]:
    """Return what is written of `split`, in order; of a mix, epoch by epoch. Raises MlmError for a
    source of which none is taken."""
    spools = [(spool, len(corpus.remaining(spool))) for spool in corpus.spools_of(split)]
    sources = [part.mixed for part in corpus.parts if part.mixed]
    if split != "train" or not sources:
        return [Segment(spool, count) for spool, count in spools]
    totals, written = {source.name: 0 for source in sources}, []
    for source, (_, count) in zip(sources, spools, strict=True):
        totals[source.name] += count
    for epoch in range(max(math.ceil(source.weight) for source in sources)):
        passed, chosen = dict.fromkeys(totals, 0), {}
        for source, (spool, count) in zip(sources, spools, strict=True):
            share = min(Fraction(repr(source.weight)) - epoch, Fraction(1))
            if share == 1:
                written.append(Segment(spool, count))
            elif share > 0:
                if source.name not in chosen:
                    key = keyed_hash(source.seed, f"{source.name} {epoch}".encode())
                    chosen[source.name] = chosen_documents(totals[source.name], share, key)
                of_spool = chosen[source.name][passed[source.name] :][:count]
                written.append(Segment(spool, int(of_spool.sum()), of_spool))
            passed[source.name] += count
    taken = {sources[segment.spool.part].name for segment in written if segment.documents}
    if unused := sorted(totals.keys() - taken):
        problems = "\n".join(
            f"corpus.mix.{name}: none of its {totals[name]:,} documents of train that remain is "
            "taken. Raise its weight, look at its filters (of equal documents, that of the first "
            "source by name is kept), or leave the source out"
            for name in unused
        )
        raise MlmError(f"A source of the corpus gives nothing.\n{problems}")
    return written


def written_batches(
    corpus: SpooledCorpus, order: Sequence[Segment], wanted: range
) -> Iterator[pa.RecordBatch]:
    """Yield the documents `wanted` of those in `order`."""
    start = 0
    for segment in order:
        first, last = (max(edge - start, 0) for edge in (wanted.start, wanted.stop))
        if first < min(last, segment.documents):
            indices = corpus.remaining(segment.spool)
            indices = indices if segment.chosen is None else indices[segment.chosen]
            yield from segment.spool.read(["text", "group"], indices[first:last])
        start += segment.documents

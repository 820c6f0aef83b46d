"""The order and number of documents of several weighted sources (`corpus.mix`).

With weight 2.3, every document of train is used twice, and three in ten a third time: of every
1,024 in a row, those with the lowest keyed hashes. Held-out splits have each once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from mlm.corpus.artefacts import ReadPart
from mlm.corpus.document_groups import keyed_hash
from mlm.foundations.errors import MlmError

_BLOCK = 1024


@dataclass(frozen=True)
class Choice:
    """A `share` of the `total` documents of a source: those of it from `first` to `stop`."""

    first: int
    stop: int
    total: int
    share: Fraction
    key: int

    @cached_property
    def count(self) -> int:
        return self._before(self.stop) - self._before(self.first)

    def _before(self, number: int) -> int:
        start = number // _BLOCK * _BLOCK
        return math.floor(start * self.share) + int(self._block(start)[: number - start].sum())

    def mask(self) -> np.ndarray:
        """Return which of the documents from `first` to `stop` are in the share, bool."""
        start = self.first // _BLOCK * _BLOCK
        blocks = [self._block(block) for block in range(start, self.stop, _BLOCK)]
        return np.concatenate([np.empty(0, bool), *blocks])[self.first - start : self.stop - start]

    def _block(self, start: int) -> np.ndarray:
        end = min(start + _BLOCK, self.total)
        block = np.zeros(end - start, bool)
        order = np.argsort(_hashes(np.arange(start, end), self.key), kind="stable")
        block[order[: math.floor(end * self.share) - math.floor(start * self.share)]] = True
        return block


def _hashes(numbers: np.ndarray, key: int) -> np.ndarray:
    """Return 64 bits for each of `numbers`, by SplitMix64 (Steele et al., 2014)."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Segment:
    """Documents written one after the other: all that remain of a part, or a choice of them."""

    part: int
    documents: int
    choice: Choice | None = None


def segments(parts: Sequence[ReadPart], remaining: Sequence[int], split: str) -> list[Segment]:
    """Return what is written of `split`, in order, of `parts` with so many `remaining` documents
    each; of a mix, epoch by epoch. Raises MlmError for a source of which none is taken."""
    sources = [part.mixed for part in parts if part.mixed]
    if split != "train" or not sources:
        return [Segment(number, count) for number, count in enumerate(remaining)]
    totals, first = {source.name: 0 for source in sources}, []
    for source, count in zip(sources, remaining, strict=True):
        first.append(totals[source.name])
        totals[source.name] += count
    written = []
    for epoch in range(max(math.ceil(source.weight) for source in sources)):
        for number, (source, count) in enumerate(zip(sources, remaining, strict=True)):
            share = min(Fraction(repr(source.weight)) - epoch, Fraction(1))
            if share == 1:
                written.append(Segment(number, count))
            elif share > 0:
                stop, total = first[number] + count, totals[source.name]
                key = keyed_hash(source.seed, f"{source.name} {epoch}".encode())
                choice = Choice(first[number], stop, total, share, key)
                written.append(Segment(number, choice.count, choice))
    taken = {sources[segment.part].name for segment in written if segment.documents}
    if unused := sorted(totals.keys() - taken):
        problems = "\n".join(
            f"corpus.mix.{name}: none of its {totals[name]:,} documents of train that remain is "
            "taken. Raise its weight, look at its filters (of equal documents, that of the first "
            "source by name is kept), or leave the source out"
            for name in unused
        )
        raise MlmError(f"A source of the corpus gives nothing.\n{problems}")
    return written

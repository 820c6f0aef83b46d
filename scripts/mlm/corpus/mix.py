"""A corpus of several sources (`corpus.mix`), each weighted.

With weight 2.3, every kept document of train is used twice, and three in ten a third time: of every
1,024 in a row, those with the lowest keyed hashes. Held-out splits have each once.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from mlm.corpus.artefacts import Mixed, ReadPart
from mlm.foundations.errors import MlmError

_BLOCK = 1024


@dataclass(frozen=True)
class Choice:
    """A `share` of the `total` kept documents of a source: those chosen of `first` to `stop`."""

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
        return math.floor(start * self.share) + int(self.mask(start, number).sum())

    def mask(self, first: int | None = None, stop: int | None = None) -> np.ndarray:
        """Which of the documents from `first` to `stop` are in the share, bool."""
        first, stop = self.first if first is None else first, self.stop if stop is None else stop
        found = [np.empty(0, bool)]
        for start in range(first // _BLOCK * _BLOCK, stop, _BLOCK):
            end = min(start + _BLOCK, self.total)
            block = np.zeros(end - start, bool)
            order = np.argsort(_hashes(np.arange(start, end), self.key), kind="stable")
            block[order[: math.floor(end * self.share) - math.floor(start * self.share)]] = True
            found.append(block[max(first - start, 0) : stop - start])
        return np.concatenate(found)


def _hashes(numbers: np.ndarray, key: int) -> np.ndarray:
    """64 bits for each of `numbers`, by SplitMix64 (Steele et al., 2014)."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Segment:
    """Documents written one after the other: the kept ones of a part, or a choice."""

    part: int
    documents: int
    choice: Choice | None = None


def segments(parts: Sequence[ReadPart], kept: Sequence[int], split: str) -> list[Segment]:
    """What is written of `split`, in order, of `parts` with so many `kept` documents each; of a
    mix, epoch by epoch. Raises MlmError for a source of which none is taken."""
    if split != "train" or any(part.mixed is None for part in parts):
        return [Segment(number, count) for number, count in enumerate(kept)]
    totals, first = {part.mixed.name: 0 for part in parts}, []
    for part, count in zip(parts, kept, strict=True):
        first.append(totals[part.mixed.name])
        totals[part.mixed.name] += count
    found = []
    for epoch in range(max(math.ceil(part.mixed.weight) for part in parts)):
        for number, (part, count) in enumerate(zip(parts, kept, strict=True)):
            source = part.mixed
            share = min(Fraction(repr(source.weight)) - epoch, Fraction(1))
            if share == 1:
                found.append(Segment(number, count))
            elif share > 0:
                stop, total = first[number] + count, totals[source.name]
                choice = Choice(first[number], stop, total, share, _key(source, epoch))
                found.append(Segment(number, choice.count, choice))
    _refuse_empty_sources(parts, found, totals)
    return found


def _key(source: Mixed, epoch: int) -> int:
    data = f"{source.name} {epoch}".encode()
    digest = hashlib.blake2b(data, digest_size=8, key=b"%d" % source.seed).digest()
    return int.from_bytes(digest, "big")


def _refuse_empty_sources(
    parts: Sequence[ReadPart], found: Sequence[Segment], kept: Mapping[str, int]
) -> None:
    taken = {parts[segment.part].mixed.name for segment in found if segment.documents}
    problems = []
    for name in sorted(kept.keys() - taken):
        own = [part for part in parts if part.mixed.name == name]
        read = sum(part.splits["train"].filters["read"] for part in own)
        problems.append(
            f"corpus.mix.{name}: weight {own[0].mixed.weight:g} takes none of its {kept[name]:,} "
            "documents. Raise the weight, or leave the source out"
            if kept[name]
            else f"corpus.mix.{name}: no document of train is left of {read:,} that were read. "
            "Look at its filters; of equal documents, that of the first source by name is kept"
        )
    if problems:
        raise MlmError("\n".join(["A source of the corpus gives nothing.", *problems]))

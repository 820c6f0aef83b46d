"""How often each document of the sources of a mix is taken (`corpus.mix`).

A weight is a number of epochs: of a source with weight 2.3, every document of train that is kept
stands twice in the corpus, and three in ten a third time; with weight 0.3, three in ten stand once.
The remainder is an exact share of the kept documents, spread evenly over the source: of every 1,024
in a row, those whose numbers have the lowest keyed hashes. Validation and test have each document
once.
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
    """A share of the kept documents of a source: of `total`, those from `first` to `stop`."""

    first: int
    stop: int
    total: int
    share: Fraction
    key: int

    def mask(self) -> np.ndarray:
        """Which of them are in the share, bool [stop - first]."""
        return self._mask(self.first, self.stop)

    @cached_property
    def count(self) -> int:
        """How many of them are."""
        return self._before(self.stop) - self._before(self.first)

    def _quota(self, number: int) -> int:
        return number * self.share.numerator // self.share.denominator

    def _before(self, number: int) -> int:
        start = number // _BLOCK * _BLOCK
        return self._quota(start) + int(self._mask(start, number).sum())

    def _mask(self, first: int, stop: int) -> np.ndarray:
        found = [np.empty(0, bool)]
        for start in range(first // _BLOCK * _BLOCK, stop, _BLOCK):
            end = min(start + _BLOCK, self.total)
            block = np.zeros(end - start, bool)
            order = np.argsort(_hashes(np.arange(start, end), self.key), kind="stable")
            block[order[: self._quota(end) - self._quota(start)]] = True
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
    """Documents that are written one after the other: the kept ones of a part, or a choice."""

    part: int
    documents: int
    choice: Choice | None = None


def segments(parts: Sequence[ReadPart], kept: Sequence[int], split: str) -> list[Segment]:
    """What is written of `split`, in order, of `parts` of which so many documents are `kept`.

    Of a mix, all documents of all sources that are taken once, then those that are taken twice,
    and so on. Raises MlmError for a source of which no document is taken.
    """
    if split != "train" or any(part.mixed is None for part in parts):
        return [Segment(number, count) for number, count in enumerate(kept)]
    mixed = [part.mixed for part in parts]
    totals, first = dict.fromkeys((m.name for m in mixed), 0), []
    for source, count in zip(mixed, kept, strict=True):
        first.append(totals[source.name])
        totals[source.name] += count
    found = []
    for epoch in range(max(math.ceil(source.weight) for source in mixed)):
        for number, (source, count) in enumerate(zip(mixed, kept, strict=True)):
            share = min(Fraction(repr(source.weight)) - epoch, Fraction(1))
            if share == 1:
                found.append(Segment(number, count))
            elif share > 0:
                stop = first[number] + count
                total, key = totals[source.name], _key(source, epoch)
                choice = Choice(first[number], stop, total, share, key)
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
    taken = dict.fromkeys(kept, 0)
    for segment in found:
        taken[parts[segment.part].mixed.name] += segment.documents
    problems = []
    for name in (name for name, count in taken.items() if not count):
        own = [part for part in parts if part.mixed.name == name]
        read = sum(part.splits["train"].filters["read"] for part in own)
        if kept[name]:
            problems.append(
                f"corpus.mix.{name}: weight {own[0].mixed.weight:g} takes none of its "
                f"{kept[name]:,} documents. Raise the weight, or leave the source out"
            )
        else:
            problems.append(
                f"corpus.mix.{name}: no document of train is left of {read:,} that were read. Look "
                "at its filters, and at what the other sources have as well: of equal documents, "
                "that of the source whose name comes first is kept"
            )
    if problems:
        raise MlmError("\n".join(["A source of the corpus gives nothing.", *problems]))

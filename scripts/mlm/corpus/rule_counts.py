"""What each rule of `corpus.filters` took: documents, characters, and the first few as samples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mlm.corpus.artefacts import TakenByRule

#: Samples of what a rule took, by split, and how many characters of each are kept.
SAMPLES = 3
SAMPLE_CHARACTERS = 300


class Taken(NamedTuple):
    """What a rule took of one document: characters, and a text to show of it (None: not shown)."""

    rule: str
    characters: int
    sample: str | None


@dataclass
class RuleCount:
    """What a rule took so far. A document from which it took lines counts as one."""

    documents: int = 0
    characters: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, taken: Taken) -> None:
        """Count what was taken of one more document."""
        self.documents += 1
        self.characters += taken.characters
        if taken.sample is not None and len(self.samples) < SAMPLES:
            self.samples.append(shortened(taken.sample))

    def record(self) -> TakenByRule:
        """As it stands in a file."""
        return TakenByRule(self.documents, self.characters, tuple(self.samples))


def shortened(text: str) -> str:
    """The beginning of `text`, with an ellipsis where that is not all."""
    return text if len(text) <= SAMPLE_CHARACTERS else text[:SAMPLE_CHARACTERS] + "…"


def rules_together(parts: Iterable[dict[str, TakenByRule] | None]) -> dict[str, TakenByRule] | None:
    """What the rules took of all parts of a corpus, which are given in order; None: no rule."""
    found = [part for part in parts if part is not None]
    rules = dict.fromkeys(rule for part in found for rule in part)
    # Sources of a mix may have different rules.
    return {rule: _sum(part[rule] for part in found if rule in part) for rule in rules} or None


def _sum(counts: Iterator[TakenByRule]) -> TakenByRule:
    found = list(counts)
    return TakenByRule(
        sum(count.documents for count in found),
        sum(count.characters for count in found),
        tuple([sample for count in found for sample in count.samples][:SAMPLES]),
    )

"""What each rule of `corpus.filters` took: documents, characters, and the first few as samples."""

from collections.abc import Iterable
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
            whole, shown = taken.sample, taken.sample[:SAMPLE_CHARACTERS]
            self.samples.append(whole if whole == shown else shown + "…")

    def record(self) -> TakenByRule:
        """As the split's description has it."""
        return TakenByRule(self.documents, self.characters, tuple(self.samples))


def rules_together(parts: Iterable[dict[str, TakenByRule] | None]) -> dict[str, TakenByRule] | None:
    """What the rules took of all parts of a corpus, which are given in order; None: no rule."""
    # Sources of a mix may have different rules.
    counts: dict[str, list[TakenByRule]] = {}
    for part in parts:
        for rule, count in (part or {}).items():
            counts.setdefault(rule, []).append(count)
    return {
        rule: TakenByRule(
            sum(count.documents for count in own),
            sum(count.characters for count in own),
            tuple([sample for count in own for sample in count.samples][:SAMPLES]),
        )
        for rule, own in counts.items()
    } or None

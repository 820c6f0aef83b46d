"""What keeps a document out of the corpus, and the count of each reason."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from mlm.corpus.decoding import CleanText, clean, has_surrogate
from mlm.corpus.decontamination import Decontamination
from mlm.corpus.language import Language
from mlm.corpus.normalisation import normalised
from mlm.corpus.personal_data import PersonalData
from mlm.corpus.quality import Quality
from mlm.corpus.rule_counts import RuleCount, Taken


@dataclass
class SplitCounts:
    """What became of a split's documents, and the size of those kept.

    `filters` holds for each reason the documents that it took, each counted once, so that
    `read` is the sum of all the others. `rules` holds what each of the rules that can be switched
    on took. `words` are runs of characters between white space.
    """

    filters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("read", "empty", "too_short", "too_long", "duplicate", "leaked", "kept"), 0
        )
    )
    rules: dict[str, RuleCount] = field(default_factory=dict)
    replaced_bytes: int = 0
    nul_bytes: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    groups: int = 0


class Judged(NamedTuple):
    """A document as it is to be written, or why it is not; and what was replaced in it or taken."""

    text: str
    refusal: str | None
    replaced_bytes: int
    nul_bytes: int
    taken: list[Taken]


#: Families of rules that look at documents of train alone.
OF_TRAIN = ("decontamination",)


class Rules(Protocol):
    """A family of rules: the names of those that are on, and what they do to a text."""

    rules: list[str]

    def judged(self, text: str, taken: list[Taken]) -> tuple[str, str | None]:
        """What is left of `text`, and the rule that leaves out all of it; None: it stays."""


@dataclass(frozen=True)
class Filters:
    """The settings of `corpus.filters`. Those of the rules are None where they are all off."""

    normalisation: str
    min_characters: int
    max_characters: int | None
    deduplicate: bool
    remove_leakage: bool
    quality: Mapping | None = None
    personal_data: Mapping | None = None
    language: Mapping | None = None
    decontamination: Mapping | None = None
    #: The section `NearDuplicates`, for the passes after the reading.
    near_duplicates: Mapping | None = None

    @cached_property
    def _rules(self) -> dict[str, Rules]:
        """The rules of each family that has any, in the order in which they are tried.

        Personal data is first, so that no sample of what another rule took shows it.
        """
        families = {
            "personal_data": PersonalData(self.personal_data or {}),
            "quality": Quality(self.quality or {}),
            "language": Language(self.language or {}),
            "decontamination": Decontamination(self.decontamination or {}),
        }
        return {name: family for name, family in families.items() if family.rules}

    @cached_property
    def _longest(self) -> float:
        return math.inf if self.max_characters is None else self.max_characters

    def counts(self) -> SplitCounts:
        """The counts of a split before anything was read."""
        count = SplitCounts()
        kept = count.filters.pop("kept")
        count.filters |= {**dict.fromkeys(self._rules, 0), "kept": kept}
        count.rules = {r: RuleCount() for family in self._rules.values() for r in family.rules}
        return count

    def keep_as_it_is(self, raw: str) -> bool:
        """Whether `raw` is kept without a change, as far as that is seen at a glance.

        Most documents are: nobody looks closer at them.
        """
        return (
            not self._rules
            and self.min_characters <= len(raw) <= self._longest
            and "\0" not in raw
            and (raw.isascii() or (self.normalisation == "none" and not has_surrogate(raw)))
            and not (raw.isspace() or not raw)
        )

    def judged(self, raw: str) -> Judged:
        """`raw` prepared, with what the rules leave of it, or the reason why it is left out.

        Beside those of `refusal`, this can be a family of rules: one of them left it out, or they
        left nothing of it.
        """
        text, replaced, nul = self.prepared(raw)
        taken: list[Taken] = []
        refusal = self.refusal(text)
        for name, family in self._rules.items():
            if refusal is None and name not in OF_TRAIN:
                before = text
                text, rule = family.judged(text, taken)
                if rule or not text:
                    refusal = name
                elif text != before:
                    refusal = self.refusal(text)
        return Judged(text, refusal, replaced, nul, taken)

    def judged_in_train(self, judged: Judged) -> Judged:
        """What becomes of a document that belongs to train, beside what `judged` says of it."""
        refusal = judged.refusal
        for name in OF_TRAIN:
            if refusal is None and name in self._rules:
                refusal = name if self._rules[name].judged(judged.text, judged.taken)[1] else None
        return judged if refusal is judged.refusal else judged._replace(refusal=refusal)

    def prepared(self, text: str) -> CleanText:
        """`text` cleaned and in the chosen normalisation form."""
        cleaned = clean(text)
        # ASCII is in every normalisation form already.
        if self.normalisation == "none" or text.isascii():
            return cleaned
        return cleaned._replace(text=normalised(cleaned.text, self.normalisation))

    def refusal(self, text: str) -> str | None:
        """Why a document is left out by itself: empty, too_short, too_long; None: it is kept.

        A document of white space alone is empty. Lengths are in characters (code points).
        """
        if not text or text.isspace():
            return "empty"
        if len(text) < self.min_characters:
            return "too_short"
        if self.max_characters is not None and len(text) > self.max_characters:
            return "too_long"
        return None

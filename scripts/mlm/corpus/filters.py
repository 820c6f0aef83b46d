"""What keeps a document out of the corpus, and the count of each reason."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mlm.corpus.decoding import CleanText, clean, has_surrogate
from mlm.corpus.decontamination import Decontamination
from mlm.corpus.language import Language
from mlm.corpus.personal_data import PersonalData
from mlm.corpus.quality import Quality
from mlm.corpus.rule_counts import RuleCount, Taken


class Judged(NamedTuple):
    """A document as it is to be written, or why it is not; and what was replaced in it or taken."""

    text: str
    refusal: str | None
    replaced_bytes: int
    nul_bytes: int
    taken: list[Taken]


@dataclass
class SplitCounts:
    """What became of a split's documents, and the size of those kept.

    `filters` holds for each reason the documents that it took, each counted once, so that `read` is
    the sum of all the others. `rules` holds what each of the rules that can be switched on took.
    `words` are runs of characters between white space.
    """

    filters: dict[str, int]
    rules: dict[str, RuleCount] = field(default_factory=dict)
    replaced_bytes: int = 0
    nul_bytes: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    groups: int = 0

    def add(self, judged: Judged | None) -> None:
        """Count a document that was read; None: nothing was done to it."""
        self.filters["read"] += 1
        if judged:
            self.replaced_bytes += judged.replaced_bytes
            self.nul_bytes += judged.nul_bytes
            for one in judged.taken:
                self.rules[one.rule].add(one)
            if judged.refusal:
                self.filters[judged.refusal] += 1


@dataclass(frozen=True)
class Filters:
    """The settings of `corpus.filters`, as `file_patterns.used_settings` has them."""

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
    def _rules(self) -> dict[str, PersonalData | Quality | Language | Decontamination]:
        """The families of rules that have any, in the order in which they are tried.

        Each has the names of its `rules`; its `judged` gives what is left of a text, and the rule
        that leaves out all of it or None. Personal data is first, so that no sample of what another
        rule took shows it.
        """
        families = {
            "personal_data": PersonalData(self.personal_data or {}),
            "quality": Quality(self.quality or {}),
            "language": Language(self.language or {}),
            "decontamination": Decontamination(self.decontamination or {}),
        }
        return {name: family for name, family in families.items() if family.rules}

    def counts(self) -> SplitCounts:
        """The counts of a split before anything was read."""
        reasons = ("empty", "too_short", "too_long", "duplicate", "leaked", *self._rules)
        rules = {r: RuleCount() for family in self._rules.values() for r in family.rules}
        return SplitCounts(dict.fromkeys(("read", *reasons, "kept"), 0), rules)

    def keep_as_it_is(self, raw: str) -> bool:
        """Whether `raw` is certainly kept without a change, as most documents are."""
        return (
            not self._rules
            and "\0" not in raw
            and (raw.isascii() or (self.normalisation == "none" and not has_surrogate(raw)))
            and self._refusal(raw) is None
        )

    def judged(self, raw: str) -> Judged:
        """`raw` prepared, with what the rules leave of it, or the reason why it is left out.

        That is empty, too_short, too_long, or a family of rules: one of them left it out, or they
        left nothing of it. Decontamination looks at documents of train alone (`judged_in_train`).
        """
        text, replaced, nul = self.prepared(raw)
        taken: list[Taken] = []
        refusal = self._refusal(text)
        for name, family in self._rules.items():
            if refusal is None and name != "decontamination":
                before = text
                text, rule = family.judged(text, taken)
                if rule or not text:
                    refusal = name
                elif text != before:
                    refusal = self._refusal(text)
        return Judged(text, refusal, replaced, nul, taken)

    def judged_in_train(self, judged: Judged) -> Judged:
        """What becomes of a document that belongs to train, beside what `judged` says of it."""
        rules = self._rules.get("decontamination")
        if judged.refusal or rules is None or rules.judged(judged.text, judged.taken)[1] is None:
            return judged
        return judged._replace(refusal="decontamination")

    def prepared(self, text: str) -> CleanText:
        """`text` cleaned and in the chosen normalisation form."""
        cleaned = clean(text)
        # ASCII is in every normalisation form already.
        if self.normalisation == "none" or text.isascii():
            return cleaned
        return cleaned._replace(text=unicodedata.normalize(self.normalisation, cleaned.text))

    def _refusal(self, text: str) -> str | None:
        # Lengths are in characters (code points); a document of white space alone is empty.
        if not text or text.isspace():
            return "empty"
        if len(text) < self.min_characters:
            return "too_short"
        if self.max_characters is not None and len(text) > self.max_characters:
            return "too_long"
        return None

"""What keeps a document out of the corpus, and the count of each reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mlm.corpus.decoding import CleanText, clean
from mlm.corpus.normalisation import normalised
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


@dataclass(frozen=True)
class Filters:
    """The settings of `corpus.filters`. Those of the rules are None where they are all off."""

    normalisation: str
    min_characters: int
    max_characters: int | None
    deduplicate: bool
    remove_leakage: bool
    quality: Mapping | None = None

    def counts(self) -> SplitCounts:
        """The counts of a split before anything was read."""
        count = SplitCounts()
        kept = count.filters.pop("kept")
        reasons = ["quality"] if self._quality.rules else []
        count.filters |= {**dict.fromkeys(reasons, 0), "kept": kept}
        count.rules = {rule: RuleCount() for rule in self._quality.rules}
        return count

    @cached_property
    def _quality(self) -> Quality:
        return Quality(self.quality or {})

    def judged(self, raw: str) -> Judged:
        """`raw` prepared, with what the rules leave of it, or the reason why it is left out.

        Beside those of `refusal`, `quality` is one.
        """
        text, replaced, nul = self.prepared(raw)
        taken: list[Taken] = []
        refusal = self.refusal(text)
        if refusal is None and self._quality.rules:
            text, rule = self._quality.judged(text, taken)
            # Where rules that take lines left none, they took the document.
            empty = not text and "quality"
            refusal = "quality" if rule else empty or self.refusal(text)
        return Judged(text, refusal, replaced, nul, taken)

    def prepared(self, text: str) -> CleanText:
        """`text` cleaned and in the chosen normalisation form."""
        cleaned = clean(text)
        if self.normalisation == "none":
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

"""What keeps a document out of the corpus, and the count of each reason."""

from dataclasses import dataclass, field

from mlm.corpus.decoding import CleanText, clean
from mlm.corpus.normalisation import normalised


@dataclass
class SplitCounts:
    """What became of a split's documents, and the size of those kept.

    `filters` holds for each reason the documents that it took, each counted once, so that
    `read` is the sum of all the others. `words` are runs of characters between white space.
    """

    filters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("read", "empty", "too_short", "too_long", "duplicate", "leaked", "kept"), 0
        )
    )
    replaced_bytes: int = 0
    nul_bytes: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    groups: int = 0


@dataclass(frozen=True)
class Filters:
    """The settings of `corpus.filters`."""

    normalisation: str
    min_characters: int
    max_characters: int | None
    deduplicate: bool
    remove_leakage: bool

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

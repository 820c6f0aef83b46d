"""Section `corpus.filters`: which documents, lines and characters are left out."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from mlm.config.fields import Count, FilePath, Fraction, Positive, Section, Text, section

Normalisation = Literal["none", "NFC", "NFD", "NFKC", "NFKD"]
_Words = Annotated[list[Text], Field(min_length=1)]
_Shares = Annotated[list[Fraction], Field(max_length=6)]
_STOP_WORDS = ["the", "be", "to", "of", "and", "that", "have", "with"]
#: The first of the n-grams of the rules with a limit for each n.
_FIRST_N = {"max_top_n_grams": 2, "max_duplicate_n_grams": 5}

#: The rules of `quality`: the kind of the limit, Gopher's (Rae et al., 2021, arXiv 2112.11446,
#: appendix A1 and table A1), that of C4's code (Raffel et al., 2020, arXiv 1910.10683, section 2.2;
#: the paper's text has 3 words in a line and 5 sentences), and the meaning. None: the rule is off.
RULES: dict[str, tuple[Any, Any, Any, str]] = {
    "min_words": (Count, 50, None, "Minimum number of words, separated by white space."),
    "max_words": (Count, 100_000, None, "Maximum number of words."),
    "min_mean_word_length": (Positive, 3.0, None, "Minimum mean length in characters."),
    "max_mean_word_length": (Positive, 10.0, None, "Maximum mean length in characters."),
    "max_symbols_per_word": (Fraction, 0.1, None, "Maximum ratio of # or of ellipses to words."),
    "max_bullet_lines": (Fraction, 0.9, None, "Maximum share of lines that begin with • or -."),
    "max_ellipsis_lines": (Fraction, 0.3, None, "Maximum share that end with an ellipsis."),
    "min_words_with_letter": (Fraction, 0.8, None, "Minimum share of words with a letter."),
    "min_stop_words": (Count, 2, None, "Minimum number of different words of stop_words."),
    "stop_words": (_Words, _STOP_WORDS, None, "The stop words: name some of your language."),
    "max_duplicate_paragraphs": (Fraction, 0.3, None, "Maximum share of repeated paragraphs."),
    "max_duplicate_paragraph_characters": (Fraction, 0.2, None, "Their share of characters."),
    "max_duplicate_lines": (Fraction, 0.3, None, "Maximum share of repeated lines."),
    "max_duplicate_line_characters": (Fraction, 0.2, None, "Their share of characters."),
    "max_top_n_grams": (_Shares, [0.2, 0.18, 0.16], None, "Of the top 2-gram, 3-gram, …"),
    "max_duplicate_n_grams": (
        *(_Shares, [0.15, 0.14, 0.13, 0.12, 0.11, 0.1], None),
        "Maximum shares of characters in 5-grams, 6-grams, … that repeat an earlier one.",
    ),
    "max_word_length": (Count, None, 1000, "Remove lines with a longer word."),
    "terminal_punctuation": (bool, None, True, 'Remove lines that do not end with . ? ! or ".'),
    "min_words_in_line": (Count, None, 5, "Remove lines with fewer words."),
    "boilerplate_lines": (bool, None, True, "Remove lines with javascript or privacy policy …"),
    "citations": (bool, None, True, "Remove marks such as [12], [edit] and [citation needed]."),
    "lorem_ipsum": (bool, None, True, "Leave out documents with the phrase lorem ipsum."),
    "curly_bracket": (bool, None, True, "Leave out documents with a curly bracket ({)."),
    "min_sentences": (Count, None, 3, "Minimum number of sentences in what remains."),
}
#: Null switches off a published rule.
QualityRules = TypedDict(
    "QualityRules",
    {rule: kind | None for rule, (kind, *_) in RULES.items()},  # pyright: ignore
    total=False,
)
QualityRules.__pydantic_config__ = ConfigDict(  # pyright: ignore
    extra="forbid", coerce_numbers_to_str=True
)


class QualityFilter(Section):
    gopher: bool = False
    """Apply Gopher's rules (Rae et al., 2021, arXiv 2112.11446), for whole English pages."""
    c4: bool = False
    """Apply C4's rules (Raffel et al., 2020, arXiv 1910.10683)."""
    rules: QualityRules = {}
    """Single rules, which take precedence (docs/configuration.md lists them): {min_words: 20}."""

    def limits(self) -> dict[str, Any]:
        """Return the limit of each rule that is on, one for each n of a rule of n-grams."""
        limits = {}
        for rule, (_, gopher, c4, _) in RULES.items():
            published = gopher if self.gopher and gopher is not None else c4 if self.c4 else None
            limits[rule] = self.rules.get(rule, published)
        for rule, first in _FIRST_N.items():
            of_ns = enumerate(limits.pop(rule) or (), first)
            limits |= {rule.replace("_n_", f"_{n}_"): limit for n, limit in of_ns}
        limits["stop_words"] = limits["stop_words"] or _STOP_WORDS
        return {rule: v for rule, v in limits.items() if v is not None and v is not False}


class DecontaminationFilter(Section):
    against: list[FilePath] = []
    """Files of evaluation texts, one per line or row. Documents of train that share `words`
    consecutive words with one of them are removed (Brown et al., 2020, arXiv 2005.14165)."""
    also: list[Literal["validation", "test"]] | None = None
    """Held-out splits that count, too. null: both with the embedded corpus, else none."""
    words: Count = 13
    """Number of consecutive words that must be shared."""
    text_column: Text = "text"
    """Column with the text, in files of `against` with columns."""


class CorpusFilters(Section):
    normalisation: Normalisation = "none"
    """Unicode normalisation form."""
    min_characters: Count = 1
    """Remove documents with fewer characters, and those of white space only."""
    max_characters: Count | None = None
    """Remove documents with more characters; null: no limit."""
    deduplicate: bool = True
    """Remove documents whose exact text occurred before in the same split."""
    remove_leakage: bool = True
    """Remove from train what is also in validation or test, and from validation what is in test."""
    near_duplicates: bool = False
    """Remove documents that share three quarters of their 5-grams with an earlier one of the split,
    or with a held-out one (remove_leakage), by MinHash."""
    quality: QualityFilter = section(QualityFilter)
    decontamination: DecontaminationFilter = section(DecontaminationFilter)

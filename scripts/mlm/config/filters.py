"""Section `corpus.filters`: which documents, lines and characters are left out."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from mlm.config.fields import (
    Count,
    FilePath,
    Fraction,
    NoBoolean,
    Positive,
    Section,
    Text,
    checked,
    section,
)

Normalisation = Literal["none", "NFC", "NFD", "NFKC", "NFKD"]
_Share = Annotated[float, Field(gt=0, le=1), NoBoolean]
_Words = Annotated[list[Text], Field(min_length=1)]
_STOP_WORDS = ["the", "be", "to", "of", "and", "that", "have", "with"]
_REPEATS = "Maximum share of the characters in {}-grams that repeat an earlier one."

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
    "max_duplicate_paragraphs": (Fraction, 0.3, None, "Maximum share that repeat an earlier one."),
    "max_duplicate_paragraph_characters": (Fraction, 0.2, None, "Maximum share of characters."),
    "max_duplicate_lines": (Fraction, 0.3, None, "Maximum share that repeat an earlier one."),
    "max_duplicate_line_characters": (Fraction, 0.2, None, "Maximum share of characters."),
    "max_top_2_gram": (Fraction, 0.2, None, "Share of characters in the most frequent 2-gram."),
    "max_top_3_gram": (Fraction, 0.18, None, "The same of 3-grams."),
    "max_top_4_gram": (Fraction, 0.16, None, "The same of 4-grams."),
    **{
        f"max_duplicate_{n}_grams": (Fraction, (20 - n) / 100, None, _REPEATS.format(n))
        for n in range(5, 11)
    },
    "max_word_length": (Count, None, 1000, "Remove lines with a longer word."),
    "terminal_punctuation": (bool, None, True, 'Remove lines that do not end with . ? ! or ".'),
    "min_words_in_line": (Count, None, 5, "Remove lines with fewer words."),
    "javascript_lines": (bool, None, True, "Remove lines with the word javascript."),
    "policy_lines": (bool, None, True, "Remove lines with phrases such as privacy policy."),
    "citations": (bool, None, True, "Remove marks such as [12], [edit] and [citation needed]."),
    "lorem_ipsum": (bool, None, True, "Leave out documents with the phrase lorem ipsum."),
    "curly_bracket": (bool, None, True, "Leave out documents with a curly bracket ({)."),
    "min_sentences": (Count, None, 3, "Minimum number of sentences in what remains."),
}
_FIELDS: dict[str, Any] = {rule: (kind | None, None) for rule, (kind, *_) in RULES.items()}
QualityRules = create_model("QualityRules", __base__=Section, **_FIELDS)


class QualityFilter(Section):
    gopher: bool = False
    """Apply Gopher's rules (Rae et al., 2021, arXiv 2112.11446), for whole English pages."""
    c4: bool = False
    """Apply C4's rules (Raffel et al., 2020, arXiv 1910.10683)."""
    rules: dict[str, Any] = {}
    """Single rules, which take precedence (docs/configuration.md lists them): {min_words: 20}."""

    def contradictions(self) -> Iterator[str]:
        limits, problems = self._checked()
        for name in ("words", "mean_word_length"):
            low, high = limits.get(f"min_{name}"), limits.get(f"max_{name}")
            if low is not None and high is not None and high < low:
                problems.append(f"max_{name}: {high:g} is below min_{name} {low:g}")
        different = len({word.casefold() for word in limits.get("stop_words", _STOP_WORDS)})
        if (minimum := limits.get("min_stop_words", 0)) > different:
            problems.append(
                f"min_stop_words: {minimum}, but stop_words has {different} different ones"
            )
        yield from (f"rules.{line}" for line in problems)

    def limits(self) -> dict[str, Any]:
        """Return the limit of each rule that is on: single rules over the published ones."""
        return {"stop_words": _STOP_WORDS} | self._checked()[0]

    def _checked(self) -> tuple[dict[str, Any], list[str]]:
        published = {}
        for rule, (_, gopher, c4, _) in RULES.items():
            for is_on, limit in ((self.gopher, gopher), (self.c4, c4)):
                if is_on and limit is not None:
                    published[rule] = limit
        limits, problems = checked(QualityRules, published | self.rules)
        on = {k: limit for k, limit in limits if limit is not None and limit is not False}
        return on, problems


class DecontaminationFilter(Section):
    against: list[FilePath] = []
    """Files of texts that the model is judged by, one a line or row. Documents of train that share
    `words` words in a row with one of them are left out (Brown et al., 2020, arXiv 2005.14165)."""
    also: list[Literal["validation", "test"]] | None = None
    """Held-out splits to look for as well. null: both with the embedded corpus, whose speakers
    quote one another; none with other sources."""
    words: Count = 13
    """Length of the runs of words that count as shared."""
    text_column: Text = "text"
    """The column that holds the text, in files of `against` with columns."""


class NearDuplicates(Section):
    enabled: bool = False
    """Leave near-duplicates out, and count them. Needs deduplicate: true."""
    threshold: _Share = 0.75
    """Minimum Jaccard similarity of two documents' 5-grams of words, by their signatures."""


class CorpusFilters(Section):
    normalisation: Normalisation = "none"
    """Unicode normalisation form."""
    min_characters: Count = 1
    """Leave out documents with fewer characters, and those of white space alone."""
    max_characters: Count | None = None
    """Leave out documents with more characters; null: no limit."""
    deduplicate: bool = True
    """Leave out documents whose exact text came before in the same split."""
    remove_leakage: bool = True
    """Leave out of train what is also in validation or test, of validation what is in test."""
    near_duplicates: NearDuplicates = section(NearDuplicates)
    """Documents that share most of their words with an earlier one of the split, or of a held-out
    split (remove_leakage), found by MinHash and locality-sensitive hashing."""
    quality: QualityFilter = section(QualityFilter)
    decontamination: DecontaminationFilter = section(DecontaminationFilter)

    def contradictions(self) -> Iterator[str]:
        if self.near_duplicates.enabled and not self.deduplicate:
            yield (
                "near_duplicates.enabled: true, but deduplicate: false would keep exact duplicates."
                " Set both to true, or near_duplicates.enabled to false"
            )
        low, high = self.min_characters, self.max_characters
        if high is not None and high < low:
            yield f"max_characters: {high} is below min_characters {low}"

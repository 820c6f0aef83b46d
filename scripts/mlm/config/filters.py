"""Section `corpus.filters`: which documents, lines and characters are left out."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field

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

_Judging = Literal["prompts", "finetuning", "validation", "test"]
Normalisation = Literal["none", "NFC", "NFD", "NFKC", "NFKD"]
_Share = Annotated[float, Field(gt=0, le=1), NoBoolean]


def _published(default: bool | None = None, **by_set: Any) -> Any:
    """A rule that is off, with its threshold in Gopher's rules (Rae et al., 2021, arXiv 2112.11446,
    appendix A1 and table A1) or in C4's code (Raffel et al., 2020, arXiv 1910.10683, section 2.2;
    the paper's text has 3 words in a line and 5 sentences)."""
    return Field(default=default, json_schema_extra=by_set)


class QualityRules(Section):
    """The rules that `corpus.filters.quality` applies; null and false: off."""

    min_words: Count | None = _published(gopher=50)
    """Minimum number of words, separated by white space."""
    max_words: Count | None = _published(gopher=100_000)
    """Maximum number of words."""
    min_mean_word_length: Positive | None = _published(gopher=3.0)
    """Minimum mean length of the words, in characters."""
    max_mean_word_length: Positive | None = _published(gopher=10.0)
    """Maximum mean length of the words, in characters."""
    max_symbols_per_word: Fraction | None = _published(gopher=0.1)
    """Maximum ratio of # to words, and of ellipses (... or …) to words."""
    max_bullet_lines: Fraction | None = _published(gopher=0.9)
    """Maximum share of lines that begin with a bullet, • or -."""
    max_ellipsis_lines: Fraction | None = _published(gopher=0.3)
    """Maximum share of lines that end with an ellipsis."""
    min_words_with_letter: Fraction | None = _published(gopher=0.8)
    """Minimum share of words with a letter."""
    min_stop_words: Count | None = _published(gopher=2)
    """Minimum number of different words of stop_words."""
    stop_words: Annotated[list[Text], Field(min_length=1)] = [
        *("the", "be", "to", "of", "and", "that", "have", "with")
    ]
    """Words that min_stop_words counts. Gopher's are English: name some of your own language."""
    max_duplicate_paragraphs: Fraction | None = _published(gopher=0.3)
    """Maximum share of paragraphs that repeat an earlier one of the document."""
    max_duplicate_paragraph_characters: Fraction | None = _published(gopher=0.2)
    """Maximum share of the characters in such paragraphs."""
    max_duplicate_lines: Fraction | None = _published(gopher=0.3)
    """Maximum share of lines that repeat an earlier one of the document."""
    max_duplicate_line_characters: Fraction | None = _published(gopher=0.2)
    """Maximum share of the characters in such lines."""
    max_top_2_gram: Fraction | None = _published(gopher=0.2)
    """Maximum share of the characters in the most frequent 2-gram of words."""
    max_top_3_gram: Fraction | None = _published(gopher=0.18)
    """The same of 3-grams."""
    max_top_4_gram: Fraction | None = _published(gopher=0.16)
    """The same of 4-grams."""
    max_duplicate_5_grams: Fraction | None = _published(gopher=0.15)
    """Maximum share of the characters in 5-grams that repeat an earlier one."""
    max_duplicate_6_grams: Fraction | None = _published(gopher=0.14)
    """The same of 6-grams."""
    max_duplicate_7_grams: Fraction | None = _published(gopher=0.13)
    """The same of 7-grams."""
    max_duplicate_8_grams: Fraction | None = _published(gopher=0.12)
    """The same of 8-grams."""
    max_duplicate_9_grams: Fraction | None = _published(gopher=0.11)
    """The same of 9-grams."""
    max_duplicate_10_grams: Fraction | None = _published(gopher=0.1)
    """The same of 10-grams."""
    max_word_length: Count | None = _published(c4=1000)
    """Remove lines with a longer word."""
    terminal_punctuation: bool = _published(c4=True, default=False)
    """Remove lines that do not end with . ? ! or ", or that end with an ellipsis."""
    min_words_in_line: Count | None = _published(c4=5)
    """Remove lines with fewer words."""
    javascript_lines: bool = _published(c4=True, default=False)
    """Remove lines with the word javascript."""
    policy_lines: bool = _published(c4=True, default=False)
    """Remove lines with phrases such as privacy policy or use cookies."""
    citations: bool = _published(c4=True, default=False)
    """Remove marks such as [12], [edit] and [citation needed]."""
    lorem_ipsum: bool = _published(c4=True, default=False)
    """Leave out documents with the phrase lorem ipsum."""
    curly_bracket: bool = _published(c4=True, default=False)
    """Leave out documents with a curly bracket ({)."""
    min_sentences: Count | None = _published(c4=3)
    """Minimum number of sentences in what remains."""

    def contradictions(self) -> Iterator[str]:
        for name in ("words", "mean_word_length"):
            low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if low is not None and high is not None and high < low:
                yield f"max_{name}: {high:g} is below min_{name} {low:g}"
        different = len({word.casefold() for word in self.stop_words})
        if (minimum := self.min_stop_words or 0) > different:
            yield f"min_stop_words: {minimum}, but stop_words has {different} different ones"


#: The rules of each publication, with their thresholds.
SETS: dict[str, dict[str, Any]] = {
    name: {
        rule: extra[name]
        for rule, field in QualityRules.model_fields.items()
        if isinstance(extra := field.json_schema_extra, dict) and name in extra
    }
    for name in ("gopher", "c4")
}


class QualityFilter(Section):
    gopher: bool = False
    """Apply Gopher's rules (Rae et al., 2021, arXiv 2112.11446), for whole English pages."""
    c4: bool = False
    """Apply C4's rules (Raffel et al., 2020, arXiv 1910.10683)."""
    rules: dict[str, Any] = {}
    """Single rules, which take precedence (docs/configuration.md lists them): {min_words: 20}."""

    def contradictions(self) -> Iterator[str]:
        rules, problems = self._checked()
        yield from (f"rules.{line}" for line in (*problems, *rules.contradictions()))

    def thresholds(self) -> QualityRules:
        """Every rule with its threshold: single rules over the published ones."""
        return self._checked()[0]

    def _checked(self) -> tuple[QualityRules, list[str]]:
        published = {
            rule: threshold
            for name in SETS
            if getattr(self, name)
            for rule, threshold in SETS[name].items()
        }
        return checked(QualityRules, published | self.rules)


class LanguageFilter(Section):
    model: FilePath | None = None
    """A model in fastText's format, such as lid.176.ftz, which needs
    envs/requirements-language.txt; null: documents of any language are kept."""
    keep: list[Text] = []
    """Languages to keep, as the model calls them: [en, de]."""
    min_probability: Fraction = 0.65
    """Minimum probability that the model gives to one of these languages."""

    def contradictions(self) -> Iterator[str]:
        if self.model is not None and not self.keep:
            yield "keep: empty, so that no document would be left; name the model's languages"
        if self.model is None and self.keep:
            yield "model: keep is set, and model is not; name the file of a model"


class DecontaminationFilter(Section):
    against: list[FilePath] = []
    """Files of texts that the model is judged by, one a line or row. Documents of train that share
    `words` words in a row with one of them are left out (Brown et al., 2020, arXiv 2005.14165)."""
    also: list[_Judging] | None = None
    """Texts of this configuration to look for as well. null: validation and test with the embedded
    corpus, whose speakers quote one another; nothing with other sources."""
    words: Count = 13
    """Length of the runs of words that count as shared."""
    text_column: Text = "text"
    """The column that holds the text, in files of `against` with columns."""


class NearDuplicates(Section):
    enabled: bool = False
    """Leave near-duplicates out, and count them. Needs deduplicate: true."""
    threshold: _Share = 0.75
    """Minimum Jaccard similarity of two documents' n-grams, as their signatures show it."""
    words: Annotated[int, Field(ge=1, le=100), NoBoolean] = 5
    """Words of an n-gram; without spaces, each character is a word."""
    bands: Annotated[int, Field(ge=1, le=64), NoBoolean] = 14
    """Bands of a signature. Documents are compared if they agree in all rows of a band."""
    rows: Annotated[int, Field(ge=1, le=32), NoBoolean] = 8
    """Rows of a band: more rows save comparisons, more bands find more pairs."""
    largest_share: _Share = 0.9
    """Stop if more than this share of the documents would be left out."""


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
    language: LanguageFilter = section(LanguageFilter)
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

    def of_jobs(self, judging: list[str]) -> Self:
        """Return the section for jobs: near-duplicates that are off have their defaults, and
        `judging` is the default of decontamination.also."""
        near, decontamination = self.near_duplicates, self.decontamination
        if decontamination.also is None:
            decontamination = decontamination.model_copy(update={"also": judging})
        return self.model_copy(
            update={
                "near_duplicates": near if near.enabled else NearDuplicates(),
                "decontamination": decontamination,
            }
        )

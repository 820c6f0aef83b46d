"""Section `corpus.filters.quality`: published rules of what is good text, each by itself."""

from typing import Annotated

from pydantic import Field

from mlm.config.fields import Count, Fraction, Positive, Section, Text

#: No two of these mean the same, and all of them together are few.
_StopWords = Annotated[list[Text], Field(min_length=1)]


class Quality(Section):
    min_words: Count | None = Field(
        None,
        description="Rules of Gopher (Rae et al., 2021, arXiv 2112.11446, appendix A1), for whole"
        " pages; words are what stands between white space. Fewer or more words (there: 50,"
        " 100000).",
    )
    max_words: Count | None = None
    min_mean_word_length: Positive | None = Field(
        None, description="A mean length of the words, in characters, below or above (3, 10)."
    )
    max_mean_word_length: Positive | None = None
    max_symbols_per_word: Fraction | None = Field(
        None, description="More # or more ellipses (... or …) for each word (0.1)."
    )
    max_bullet_lines: Fraction | None = Field(
        None, description="A larger share of the lines begins with a bullet, • or - (0.9)."
    )
    max_ellipsis_lines: Fraction | None = Field(
        None, description="A larger share of the lines ends in an ellipsis (0.3)."
    )
    min_words_with_letter: Fraction | None = Field(
        None, description="A smaller share of the words has a letter (0.8)."
    )
    min_stop_words: Count | None = Field(
        None, description="Fewer different ones of the words of stop_words (2)."
    )
    stop_words: _StopWords = Field(
        ["the", "be", "to", "of", "and", "that", "have", "with"],
        description="Gopher's are English: name some of your own language.",
    )
    max_duplicate_paragraphs: Fraction | None = Field(
        None,
        description="Repetition, by the same authors: the share of paragraphs, or of lines, that"
        " came before in the document (0.3), and their share of its characters (0.2).",
    )
    max_duplicate_paragraph_characters: Fraction | None = None
    max_duplicate_lines: Fraction | None = None
    max_duplicate_line_characters: Fraction | None = None
    max_top_2_gram: Fraction | None = Field(
        None,
        description="The share of the characters in the most frequent 2-, 3- or 4-gram of words"
        " (0.2, 0.18, 0.16).",
    )
    max_top_3_gram: Fraction | None = None
    max_top_4_gram: Fraction | None = None
    max_duplicate_5_grams: Fraction | None = Field(
        None,
        description="The share of the characters in 5- to 10-grams of words that came before in the"
        " document (0.15, 0.14, 0.13, 0.12, 0.11, 0.1).",
    )
    max_duplicate_6_grams: Fraction | None = None
    max_duplicate_7_grams: Fraction | None = None
    max_duplicate_8_grams: Fraction | None = None
    max_duplicate_9_grams: Fraction | None = None
    max_duplicate_10_grams: Fraction | None = None
    max_word_length: Count | None = Field(
        None,
        description="Rules of C4 (Raffel et al., 2020, arXiv 1910.10683, section 2.2, and its"
        " code). These take lines out of a document: with a longer word (there: 1000 characters),"
        ' without . ? ! or " at their end or with an ellipsis there, with fewer words (5; the'
        " paper's text has 3), with the word javascript, with phrases such as privacy policy or use"
        " cookies.",
    )
    terminal_punctuation: bool = False
    min_words_in_line: Count | None = None
    javascript_lines: bool = False
    policy_lines: bool = False
    citations: bool = Field(
        False, description="This takes marks such as [12], [edit] and [citation needed] out."
    )
    lorem_ipsum: bool = Field(
        False,
        description="And these leave out the document, by what is left of it: the phrase lorem"
        " ipsum, a curly bracket ({), fewer sentences (3; the paper's text has 5), or a word of a"
        " list: a file of yours in UTF-8, a word or phrase a line.",
    )
    curly_bracket: bool = False
    min_sentences: Count | None = None
    bad_words: Text | None = None

    def contradictions(self) -> list[str]:
        problems = []
        for name in ("words", "mean_word_length"):
            low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if low is not None and high is not None and high < low:
                problems.append(
                    f"corpus.filters.quality: max_{name} {high:g} is below min_{name} {low:g}"
                )
        different = len({word.casefold() for word in self.stop_words})
        if self.min_stop_words is not None and self.min_stop_words > different:
            problems.append(
                f"corpus.filters.quality.min_stop_words: {self.min_stop_words}, but stop_words has "
                f"{different} different ones, so that every document would be left out"
            )
        return problems

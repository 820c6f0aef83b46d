"""The section `corpus.filters` applied to documents one by one, and the count of each reason;
docs/corpus.md has the interpretation of Gopher's and C4's rules of what is good text."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from mlm.config.filters import CorpusFilters
from mlm.corpus.artefacts import NOTHING, Encoding, TakenByRule, add_taken
from mlm.corpus.bytes_to_text import UNCHANGED, prepared

_ELLIPSES = ("...", "…")
_BOILERPLATE = re.compile(
    "javascript|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
)
_CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
_SENTENCE_END = re.compile(r"[.?!]+[\"'”’»)\]]*(?=\s|$)")
_LETTER = re.compile(r"[^\W\d_]")
_PARAGRAPH_END = re.compile(r"\n\s*\n")


class Filtered(NamedTuple):
    """A document to write, or the reason to leave it out; what was replaced, what rules took."""

    text: str
    reason: str | None
    encoding: Encoding
    taken: dict[str, TakenByRule]


@dataclass
class SplitCounts:
    """Documents of a split by filter (`read` is the sum of all others), and what rules took."""

    filters: dict[str, int]
    rules: dict[str, TakenByRule]
    encoding: Encoding = UNCHANGED

    def add(self, filtered: Filtered) -> None:
        """Count a document."""
        self.filters["read"] += 1
        if filtered.encoding is not UNCHANGED:
            self.encoding += filtered.encoding
        add_taken(self.rules, filtered.taken)
        if filtered.reason:
            self.filters[filtered.reason] += 1


class Filters:
    """The filters of the section that concern a document by itself."""

    def __init__(self, section: CorpusFilters):
        self._section = section
        self._quality = Quality(section.quality.limits())

    def counts(self) -> SplitCounts:
        """Return the counts of a split before anything was read."""
        rules = self._quality.rules
        reasons = ["read", "empty", "too_short", "too_long", "duplicate", "leaked", "kept"]
        reasons += ["quality"] if rules else []
        return SplitCounts(dict.fromkeys(reasons, 0), dict.fromkeys(rules, NOTHING))

    def apply(self, raw: str) -> Filtered:
        """Prepare a document and apply all filters to it."""
        text, encoding = prepared(raw, self._section.normalisation)
        taken: dict[str, TakenByRule] = {}
        reason = self._by_length(text)
        if reason is None and self._quality.rules:
            text, rule = self._quality.apply(text, taken)
            reason = "quality" if rule or not text else self._by_length(text)
        return Filtered(text, reason, encoding, taken)

    def _by_length(self, text: str) -> str | None:
        # Lengths are in characters (code points); a document of white space alone is empty.
        if not text or text.isspace():
            return "empty"
        if len(text) < self._section.min_characters:
            return "too_short"
        longest = self._section.max_characters
        return "too_long" if longest is not None and len(text) > longest else None


class _Page:
    """A document and its measures: numbers of words, or shares of the whole."""

    def __init__(self, text: str, stop_words: Mapping[str, str]):
        self.text, self._stop_words = text, stop_words
        #: No n-gram of so many words occurs twice, so that no longer one does.
        self._different = 1 << 30

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()

    @cached_property
    def lines(self) -> list[str]:
        return [line for line in map(str.strip, self.text.split("\n")) if line]

    @cached_property
    def paragraphs(self) -> list[str]:
        return _PARAGRAPH_END.split(self.text.strip())

    def mean_word_length(self) -> float:
        return sum(map(len, self.words)) / len(self.words)

    def symbols_per_word(self) -> float:
        return max(self.text.count("#"), sum(map(self.text.count, _ELLIPSES))) / len(self.words)

    def words_with_letter(self) -> float:
        # Most words are letters alone, which is known at once.
        return sum(w.isalpha() or bool(_LETTER.search(w)) for w in self.words) / len(self.words)

    def stop_words(self) -> int:
        return len({self._stop_words[form] for form in self._stop_words.keys() & set(self.words)})

    def share_of_lines(self, matches: Callable[[str], bool]) -> float:
        return sum(map(matches, self.lines)) / len(self.lines)

    def top_n_gram(self, n: int) -> float:
        """Return the share of the characters in the most frequent n-gram; 0 if none repeats."""
        counts = Counter(_n_grams(self.words, n)) if n < self._different else Counter()
        most = max(counts.values(), default=0)
        if most < 2:
            self._different = min(n, self._different)
            return 0.0
        length = max(sum(map(len, gram)) for gram, count in counts.items() if count == most)
        return most * (length + n - 1) / len(self.text)

    def duplicate_n_grams(self, n: int) -> float:
        """Return the share of the characters in n-grams that repeat an earlier one, each once."""
        earlier, characters, end = set(), 0, 0
        for start, gram in enumerate(_n_grams(self.words, n) if n < self._different else ()):
            if gram in earlier:
                characters += sum(map(len, self.words[max(start, end) : start + n]))
                end = start + n
            earlier.add(gram)
        if not end:
            self._different = min(n, self._different)
        return characters / len(self.text)

    def duplicates(self, parts: Sequence[str]) -> float:
        return (len(parts) - len(set(parts))) / len(parts)

    def duplicate_characters(self, parts: Sequence[str]) -> float:
        return (sum(map(len, parts)) - sum(map(len, set(parts)))) / len(self.text)


def _n_grams(words: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(n)), strict=False)


#: The measure of each rule of whole pages, in the order in which the rules are tried.
_OF_PAGES: dict[str, Callable[[_Page], float]] = {
    "min_words": lambda page: len(page.words),
    "max_words": lambda page: len(page.words),
    "min_mean_word_length": _Page.mean_word_length,
    "max_mean_word_length": _Page.mean_word_length,
    "max_symbols_per_word": _Page.symbols_per_word,
    "min_words_with_letter": _Page.words_with_letter,
    "min_stop_words": _Page.stop_words,
    "max_duplicate_paragraphs": lambda page: page.duplicates(page.paragraphs),
    "max_duplicate_paragraph_characters": lambda page: page.duplicate_characters(page.paragraphs),
    "max_bullet_lines": lambda page: page.share_of_lines(lambda line: line.startswith(("•", "-"))),
    "max_ellipsis_lines": lambda page: page.share_of_lines(lambda line: line.endswith(_ELLIPSES)),
    "max_duplicate_lines": lambda page: page.duplicates(page.lines),
    "max_duplicate_line_characters": lambda page: page.duplicate_characters(page.lines),
    **{f"max_top_{n}_grams": partial(_Page.top_n_gram, n=n) for n in range(2, 8)},
    **{f"max_duplicate_{n}_grams": partial(_Page.duplicate_n_grams, n=n) for n in range(5, 11)},
}
#: Which lines each rule of lines takes, by its limit, in the order in which the rules are tried.
_OF_LINES: dict[str, Callable[[str, int], bool]] = {
    "max_word_length": lambda line, limit: max(map(len, line.split()), default=0) > limit,
    "terminal_punctuation": lambda line, _: (
        not line.endswith((".", "?", "!", '"')) or line.endswith(_ELLIPSES)
    ),
    "min_words_in_line": lambda line, limit: len(line.split(None, limit)) < limit,
    "boilerplate_lines": lambda line, _: _BOILERPLATE.search(line.lower()) is not None,
}

#: What each rule of whole texts refuses, by its limit, once the rules of lines have been tried.
_OF_TEXTS: dict[str, Callable[[str, int], bool]] = {
    "lorem_ipsum": lambda text, _: "lorem ipsum" in text.lower(),
    "curly_bracket": lambda text, _: "{" in text,
    "min_sentences": lambda text, least: sum(map(_sentences, text.split("\n"))) < least,
}


class Quality:
    """The rules of `corpus.filters.quality` with their `limits`."""

    def __init__(self, limits: Mapping[str, Any]):
        self._limits = {rule: limit for rule, limit in limits.items() if rule != "stop_words"}
        self.rules = [f"quality.{rule}" for rule in self._limits]
        self._stop_words = {
            form: word.casefold()
            for word in limits["stop_words"]
            for form in (word, word.lower(), word.capitalize(), word.upper())
        }
        self._of_pages, self._of_lines, self._of_texts = (
            [rule for rule in rules if rule in self._limits]
            for rules in (_OF_PAGES, ("citations", *_OF_LINES), _OF_TEXTS)
        )

    def apply(self, text: str, taken: dict[str, TakenByRule]) -> tuple[str, str | None]:
        """Return what the rules leave of `text`, and the first that leaves out all of it."""
        page, limits = _Page(text, self._stop_words), self._limits
        for rule in self._of_pages:
            limit, value = limits[rule], _OF_PAGES[rule](page)
            if value < limit if rule.startswith("min") else value > limit:
                break
        else:
            text = self._without_lines(text, taken) if self._of_lines else text
            rules = (rule for rule in self._of_texts if _OF_TEXTS[rule](text, limits[rule]))
            if (rule := next(rules, None)) is None:
                return text, None
        taken[f"quality.{rule}"] = TakenByRule.of_one(len(text), text)
        return text, rule

    def _without_lines(self, text: str, taken: dict[str, TakenByRule]) -> str:
        lines, removed = [], {rule: [] for rule in self._of_lines}
        for whole in filter(None, map(str.strip, text.split("\n"))):
            line = whole
            if "citations" in removed and (line := _CITATION.sub("", line)) != whole:
                removed["citations"].append((len(whole) - len(line), whole))
            for rule, takes in _OF_LINES.items():
                if rule in removed and takes(line, self._limits[rule]):
                    removed[rule].append((len(line), line))
                    break
            else:
                lines.append(line)
        for rule, texts in removed.items():
            if texts:
                characters = sum(count for count, _ in texts)
                taken[f"quality.{rule}"] = TakenByRule.of_one(characters, texts[0][1])
        return "\n".join(lines)


def _sentences(line: str) -> int:
    # A line without such an end is a sentence, too.
    *ended, rest = _SENTENCE_END.split(line.strip())
    return len(ended) + bool(rest)

"""Published rules of what is good text: Gopher's and C4's, each with a threshold of its own.

Gopher: Rae et al., 2021, arXiv 2112.11446, appendix A1. C4: Raffel et al., 2020, arXiv 1910.10683,
section 2.2, and its authors' code. Where the papers leave a choice, docs/corpus.md says what is
done here. What is off costs nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mlm.corpus.rule_counts import Taken
from mlm.foundations.errors import MlmError

#: What is no rule by itself.
_NO_RULES = ("stop_words",)
#: Rules that look at a document's words, n-grams, lines and paragraphs.
_ON_WORDS = (
    *("min_words", "max_words", "min_mean_word_length", "max_mean_word_length"),
    *("max_symbols_per_word", "min_words_with_letter", "min_stop_words"),
)
_ON_N_GRAMS = (
    *(f"max_top_{n}_gram" for n in (2, 3, 4)),
    *(f"max_duplicate_{n}_grams" for n in range(5, 11)),
)
_ON_LINES = (
    *("max_bullet_lines", "max_ellipsis_lines"),
    *("max_duplicate_lines", "max_duplicate_line_characters"),
)
_ON_PARAGRAPHS = ("max_duplicate_paragraphs", "max_duplicate_paragraph_characters")
#: Rules that take something out of lines, or lines, in the order in which they are tried.
_OF_LINES = (
    *("citations", "max_word_length", "terminal_punctuation", "min_words_in_line"),
    *("javascript_lines", "policy_lines"),
)
_BULLETS = ("•", "-")
_ELLIPSES = ("...", "…")
_TERMINAL = (".", "?", "!", '"')
_POLICIES = re.compile(
    "terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
)
_CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
_SENTENCE_END = re.compile(r"[.?!]+[\"'”’»)\]]*(?=\s|$)")
_LETTER = re.compile(r"[^\W\d_]")
_PARAGRAPH_END = re.compile(r"\n\s*\n")
_WORD = re.compile(r"\w+")


class Quality:
    """The rules that `settings` (the section `corpus.filters.quality`) switch on.

    Raises MlmError where the list of words cannot be read.
    """

    def __init__(self, settings: Mapping):
        self.rules = [
            f"quality.{name}"
            for name, value in settings.items()
            if name not in _NO_RULES and value is not None and value is not False
        ]
        self._limits = dict(settings)
        self._stop_words = {
            form: word.casefold()
            for word in settings.get("stop_words", ())
            for form in (word, word.lower(), word.capitalize(), word.upper())
        }
        self._on_words = self._on(_ON_WORDS)
        self._on_n_grams = self._on(_ON_N_GRAMS)
        self._on_lines = self._on(_ON_LINES)
        self._on_paragraphs = self._on(_ON_PARAGRAPHS)
        self._of_lines = self._on(_OF_LINES)
        path = settings.get("bad_words")
        self._bad_words = None if path is None else _WordList(Path(path))

    def _on(self, names: Iterable[str]) -> list[str]:
        """Those of the rules `names` that are on."""
        return [name for name in names if f"quality.{name}" in self.rules]

    def judged(self, text: str, taken: list[Taken]) -> tuple[str, str | None]:
        """What the rules leave of `text`, and the rule that leaves out all of it; None: it stays.

        To `taken` is added what was taken, by rule. Of the rules that leave out documents, the
        first counts.
        """
        rule = self._refused_by_gopher(text)
        if rule is None and self._of_lines:
            text = self._without_lines(text, taken)
        if rule is None:
            rule = self._refused_by_c4(text)
        if rule is None:
            return text, None
        taken.append(Taken(f"quality.{rule}", len(text), text))
        return text, rule

    def _refused_by_gopher(self, text: str) -> str | None:
        words = text.split() if self._on_words or self._on_n_grams else []
        return (
            (self._on_words and self._refused_by_words(text, words))
            or (self._on_paragraphs and self._refused_by_paragraphs(text))
            or (self._on_lines and self._refused_by_lines(text))
            or (self._on_n_grams and self._refused_by_n_grams(len(text), words))
            or None
        )

    def _above(self, name: str, value: float) -> bool:
        limit = self._limits[name]
        return limit is not None and value > limit

    def _below(self, name: str, value: float) -> bool:
        limit = self._limits[name]
        return limit is not None and value < limit

    def _refused_by_words(self, text: str, words: Sequence[str]) -> str | None:
        count = len(words)
        for name in ("min_words", "max_words"):
            if (self._below if name[:3] == "min" else self._above)(name, count):
                return name
        mean = sum(map(len, words)) / count
        if self._below("min_mean_word_length", mean):
            return "min_mean_word_length"
        if self._above("max_mean_word_length", mean):
            return "max_mean_word_length"
        if (limit := self._limits["max_symbols_per_word"]) is not None:
            ellipses = sum(map(text.count, _ELLIPSES))
            if max(text.count("#"), ellipses) > limit * count:
                return "max_symbols_per_word"
        if (limit := self._limits["min_words_with_letter"]) is not None:
            # Most words are letters alone, which is known at once.
            without = [word for word in words if not word.isalpha()]
            if len(without) > (1 - limit) * count:
                without = [word for word in without if not _LETTER.search(word)]
                if (count - len(without)) / count < limit:
                    return "min_words_with_letter"
        if (limit := self._limits["min_stop_words"]) is not None:
            found = self._stop_words.keys() & set(words)
            if len({self._stop_words[word] for word in found}) < limit:
                return "min_stop_words"
        return None

    def _refused_by_lines(self, text: str) -> str | None:
        lines = [line for line in map(str.strip, text.split("\n")) if line]
        if self._above("max_bullet_lines", sum(s.startswith(_BULLETS) for s in lines) / len(lines)):
            return "max_bullet_lines"
        ellipses = sum(s.endswith(_ELLIPSES) for s in lines)
        if self._above("max_ellipsis_lines", ellipses / len(lines)):
            return "max_ellipsis_lines"
        return self._refused_by_duplicates(lines, len(text), "line")

    def _refused_by_paragraphs(self, text: str) -> str | None:
        if "\n" not in text:
            return None
        return self._refused_by_duplicates(
            _PARAGRAPH_END.split(text.strip()), len(text), "paragraph"
        )

    def _refused_by_duplicates(self, parts: list[str], whole: int, what: str) -> str | None:
        different = set(parts)
        count = len(parts) - len(different)
        if not count:
            return None
        if self._above(name := f"max_duplicate_{what}s", count / len(parts)):
            return name
        characters = sum(map(len, parts)) - sum(map(len, different))
        if self._above(name := f"max_duplicate_{what}_characters", characters / whole):
            return name
        return None

    def _refused_by_n_grams(self, whole: int, words: Sequence[str]) -> str | None:
        longest, most = 0, len(words)
        for n in (2, 3, 4):
            limit = self._limits[f"max_top_{n}_gram"]
            if limit is None:
                continue
            longest = longest or max(map(len, words))
            # No longer n-gram is more frequent than a shorter one.
            if most < 2 or most * (n * longest + n - 1) <= limit * whole:
                continue
            counts = Counter(_n_grams(words, n))
            most = max(counts.values(), default=0)
            if most < 2 or most * (n * longest + n - 1) <= limit * whole:
                continue
            length = max(sum(map(len, g)) for g, count in counts.items() if count == most)
            if most * (length + n - 1) > limit * whole:
                return f"max_top_{n}_gram"
        if most > 1:
            return self._refused_by_duplicate_n_grams(whole, words)
        return None

    def _refused_by_duplicate_n_grams(self, whole: int, words: Sequence[str]) -> str | None:
        limits = {n: self._limits[f"max_duplicate_{n}_grams"] for n in range(5, 11)}
        limits = {n: limit for n, limit in limits.items() if limit is not None}
        if not limits:
            return None
        n = min(limits)
        grams = list(_n_grams(words, n))
        places: Sequence[int] = range(len(grams))
        while True:
            first = dict(zip(reversed(grams), reversed(places), strict=True))
            if len(first) == len(grams):
                return None
            firsts = [first[gram] for gram in grams]
            later = [p for p, start in zip(places, firsts, strict=True) if p != start]
            repeated = {start for p, start in zip(places, firsts, strict=True) if p != start}
            if n in limits and _covered(words, later, n) > limits[n] * whole:
                return f"max_duplicate_{n}_grams"
            n += 1
            if n > max(limits):
                return None
            # Where a longer one is repeated, this one is.
            places = [p for p in sorted({*later, *repeated}) if p + n <= len(words)]
            grams = [tuple(words[p : p + n]) for p in places]

    def _without_lines(self, text: str, taken: list[Taken]) -> str:
        """The lines of `text` that C4 keeps, without the white space around them."""
        kept, removed = [], {}
        for whole_line in text.split("\n"):
            line = whole_line.strip()
            if not line:
                continue
            if "citations" in self._of_lines and "[" in line:
                line = _CITATION.sub("", line)
                if len(line) < len(whole_line.strip()):
                    removed.setdefault("citations", []).append(whole_line)
            rule = self._line_rule(line)
            if rule is None:
                kept.append(line)
            else:
                removed.setdefault(rule, []).append(line)
        for rule in self._of_lines:
            if lines := removed.get(rule):
                characters = sum(map(len, lines))
                if rule == "citations":
                    characters -= sum(len(_CITATION.sub("", line)) for line in lines)
                taken.append(Taken(f"quality.{rule}", characters, lines[0]))
        return "\n".join(kept)

    def _line_rule(self, line: str) -> str | None:
        """The rule that takes the line; None: it stays."""
        rules = self._of_lines
        limit = self._limits["max_word_length"]
        if limit is not None and len(line) > limit and max(map(len, line.split())) > limit:
            return "max_word_length"
        if "terminal_punctuation" in rules and not (
            line.endswith(_TERMINAL) and not line.endswith(_ELLIPSES)
        ):
            return "terminal_punctuation"
        limit = self._limits["min_words_in_line"]
        if limit is not None and len(line.split(None, limit)) < limit:
            return "min_words_in_line"
        if "javascript_lines" in rules or "policy_lines" in rules:
            lower = line.lower()
            if "javascript_lines" in rules and "javascript" in lower:
                return "javascript_lines"
            if "policy_lines" in rules and _POLICIES.search(lower):
                return "policy_lines"
        return None

    def _refused_by_c4(self, text: str) -> str | None:
        limits = self._limits
        if limits["lorem_ipsum"] and "lorem ipsum" in text.lower():
            return "lorem_ipsum"
        if limits["curly_bracket"] and "{" in text:
            return "curly_bracket"
        if (least := limits["min_sentences"]) is not None:
            # A line without an end of its own is a sentence too.
            ends = sum(1 for _ in _SENTENCE_END.finditer(text))
            if ends < least and sum(map(_sentences, text.split("\n"))) < least:
                return "min_sentences"
        if self._bad_words is not None and self._bad_words.stands_in(text):
            return "bad_words"
        return None


def _n_grams(words: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(n)), strict=False)


def _covered(words: Sequence[str], places: Iterable[int], n: int) -> int:
    """The characters of the words in the n-grams that begin at `places`, ascending, each once."""
    total = end = 0
    for place in places:
        total += sum(map(len, words[max(place, end) : place + n]))
        end = place + n
    return total


def _sentences(line: str) -> int:
    line = line.strip()
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    return len(ends) + bool(line and (not ends or ends[-1] < len(line)))


class _WordList:
    """Words and phrases, of which none is to stand in a text, whatever their case.

    A word of the list stands in a text where what is beside it belongs to no word.
    """

    def __init__(self, path: Path):
        entries = {line.strip().casefold() for line in _lines_of(path)} - {""}
        if not entries:
            raise MlmError(
                f"{path} (corpus.filters.quality.rules.bad_words) names no word: expected a "
                "word or phrase a line, in UTF-8. Fill it, or set the key to null"
            )
        self._words = frozenset(entry for entry in entries if _WORD.fullmatch(entry))
        # A phrase is looked for only where its first word stands.
        self._phrases: dict[str, list[re.Pattern]] = {}
        for entry in sorted(entries - self._words):
            found = _WORD.search(entry)
            pattern = re.compile(rf"(?<!\w){re.escape(entry)}(?!\w)")
            self._phrases.setdefault(found[0] if found else "", []).append(pattern)

    def stands_in(self, text: str) -> bool:
        """Whether a word or phrase of the list stands in `text`."""
        text = text.casefold()
        words = {*_WORD.findall(text), ""}
        if not self._words.isdisjoint(words):
            return True
        return any(
            pattern.search(text)
            for first in self._phrases.keys() & words
            for pattern in self._phrases[first]
        )


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MlmError(
            f"{path} (corpus.filters.quality.rules.bad_words) cannot be read: {error}. Expected: a "
            "file in UTF-8, a word or phrase a line"
        ) from None

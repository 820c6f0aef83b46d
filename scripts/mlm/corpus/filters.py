"""The section `corpus.filters` applied to documents, and the count of each reason."""

import difflib
import importlib.util
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

from mlm.config.filters import CorpusFilters, LanguageFilter
from mlm.corpus.artefacts import NOTHING, Encoding, TakenByRule, add_taken
from mlm.corpus.decoding import clean, is_clean
from mlm.corpus.quality import Quality
from mlm.foundations.errors import MlmError

_LABEL = "__label__"
_INSTALL = ".venv/bin/python -m pip install --require-hashes -r envs/requirements-language.txt"


class Language:
    """The rules of `corpus.filters.language`, by a model in fastText's format (Joulin et al., 2016,
    arXiv 1607.01759) such as lid.176.ftz. Raises MlmError if the library, a language or the model
    is missing."""

    def __init__(self, section: LanguageFilter):
        self.rules: list[str] = []
        if section.model is None:
            return
        self.rules = ["language.keep", "language.min_probability"]
        self._labels = {f"{_LABEL}{language}" for language in section.keep}
        self._min_probability = section.min_probability
        key = f"corpus.filters.language.model: {section.model}"
        if importlib.util.find_spec("fasttext") is None:
            raise MlmError(
                f"{key} needs the package fasttext-predict, which is not installed. Install it "
                f"with\n  {_INSTALL}\nor set the key to null"
            )
        import fasttext

        try:
            self._model = fasttext.load_model(section.model)
            labels = [name.removeprefix(_LABEL) for name in self._model.predict("a", k=-1)[0]]
        except (ValueError, RuntimeError, MemoryError) as error:
            raise MlmError(
                f"{key} is no model of languages in fastText's format ({error}). Name one, such "
                "as lid.176.ftz from fasttext.cc, or fetch it again"
            ) from None
        if unknown := [language for language in section.keep if language not in labels]:
            close = difflib.get_close_matches(unknown[0], labels, n=3) or sorted(labels)[:10]
            raise MlmError(
                f"corpus.filters.language.keep: {section.model} knows no language {unknown[0]!r}; "
                f"it has {len(labels)}, among them {', '.join(close)}"
            )

    def apply(self, text: str, taken: dict[str, TakenByRule]) -> tuple[str, str | None]:
        """Return `text`, and the rule that leaves it out by its most likely language, if any."""
        # fastText takes a line.
        labels, probabilities = self._model.predict(" ".join(text.split()))
        if not labels or labels[0] not in self._labels:
            rule = "keep"
        elif probabilities[0] < self._min_probability:
            rule = "min_probability"
        else:
            return text, None
        taken[f"language.{rule}"] = TakenByRule.of_one(len(text), text)
        return text, rule


class Filtered(NamedTuple):
    """A document as it is to be written, or the reason why it is left out; what was replaced in it,
    and what rules took."""

    text: str
    reason: str | None
    encoding: Encoding
    taken: dict[str, TakenByRule]


@dataclass
class SplitCounts:
    """Documents of a split by filter (`read` is the sum of all others), and what rules took."""

    filters: dict[str, int]
    rules: dict[str, TakenByRule]
    encoding: Encoding = field(default_factory=Encoding)

    def add(self, filtered: Filtered | None) -> None:
        """Count a document; None: it stays as it is."""
        self.filters["read"] += 1
        if filtered is None:
            return
        self.encoding += filtered.encoding
        add_taken(self.rules, filtered.taken)
        if filtered.reason:
            self.filters[filtered.reason] += 1


class Filters:
    """The filters of the section that concern a document by itself."""

    def __init__(self, section: CorpusFilters):
        self._section = section
        families = {
            "quality": Quality(section.quality.thresholds()),
            "language": Language(section.language),
        }
        self._rules = {name: family for name, family in families.items() if family.rules}

    def counts(self) -> SplitCounts:
        """Return the counts of a split before anything was read."""
        reasons = ["empty", "too_short", "too_long", "duplicate", "leaked", *self._rules]
        rules = [rule for family in self._rules.values() for rule in family.rules]
        counts = dict.fromkeys(("read", *reasons, "kept"), 0)
        return SplitCounts(counts, dict.fromkeys(rules, NOTHING))

    def keeps_unchanged(self, raw: str) -> bool:
        """Return whether `raw` surely stays as it is, as most documents do: `apply` costs more."""
        is_normal = raw.isascii() or self._section.normalisation == "none"
        return not self._rules and is_normal and is_clean(raw) and self._by_length(raw) is None

    def apply(self, raw: str) -> Filtered:
        """Prepare a document and apply all filters to it."""
        text, encoding = prepared(raw, self._section.normalisation)
        taken: dict[str, TakenByRule] = {}
        reason = self._by_length(text)
        for name, family in self._rules.items():
            if reason is None:
                before = text
                text, rule = family.apply(text, taken)
                if rule or not text:
                    reason = name
                elif text != before:
                    reason = self._by_length(text)
        return Filtered(text, reason, encoding, taken)

    def _by_length(self, text: str) -> str | None:
        # Lengths are in characters (code points); a document of white space alone is empty.
        if not text or text.isspace():
            return "empty"
        if len(text) < self._section.min_characters:
            return "too_short"
        longest = self._section.max_characters
        return "too_long" if longest is not None and len(text) > longest else None


def prepared(text: str, normalisation: str) -> tuple[str, Encoding]:
    """Return `text` cleaned and in the Unicode form `normalisation`, and what `clean` replaced."""
    cleaned, encoding = clean(text)
    # ASCII is in every normalisation form already.
    if normalisation != "none" and not cleaned.isascii():
        cleaned = unicodedata.normalize(normalisation, cleaned)
    return cleaned, encoding

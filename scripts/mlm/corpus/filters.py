"""What keeps a document out of the corpus, and the count of each reason."""

import difflib
import importlib.util
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mlm.corpus.artefacts import NOTHING, TakenByRule, add_taken
from mlm.corpus.decoding import CleanText, clean, is_clean
from mlm.corpus.quality import Quality
from mlm.foundations.errors import MlmError

_LABEL = "__label__"
_INSTALL = ".venv/bin/python -m pip install --require-hashes -r envs/requirements-language.txt"


class Language:
    """The rules of `corpus.filters.language`, by a model in fastText's format (Joulin et al., 2016,
    arXiv 1607.01759) that the user names, such as lid.176.ftz; MlmError if the library, a
    language or the model is missing."""

    def __init__(self, settings: Mapping):
        self.rules: list[str] = []
        if (path := settings.get("model")) is None:
            return
        self.rules = ["language.keep", "language.min_probability"]
        self._keep = {f"{_LABEL}{language}" for language in settings["keep"]}
        self._least = settings["min_probability"]
        named = f"corpus.filters.language.model: {path}"
        if importlib.util.find_spec("fasttext") is None:
            raise MlmError(
                f"{named} needs the package fasttext-predict, which is not installed. Install it "
                f"with\n  {_INSTALL}\nor set the key to null"
            )
        import fasttext

        try:
            self._model = fasttext.load_model(str(path))
            labels = [name.removeprefix(_LABEL) for name in self._model.predict("a", k=-1)[0]]
        except (ValueError, RuntimeError, MemoryError) as error:
            raise MlmError(
                f"{named} is no model of languages in fastText's format ({error}). Name one, such "
                "as lid.176.ftz from fasttext.cc, or fetch it again"
            ) from None
        if unknown := [language for language in settings["keep"] if language not in labels]:
            close = difflib.get_close_matches(unknown[0], labels, n=3) or sorted(labels)[:10]
            raise MlmError(
                f"corpus.filters.language.keep: {path} knows no language {unknown[0]!r}; it has "
                f"{len(labels)}, among them {', '.join(close)}"
            )

    def judged(self, text: str, taken: dict[str, TakenByRule]) -> tuple[str, str | None]:
        """`text`, and the rule that leaves it out by its most likely language, if any."""
        # fastText takes a line.
        labels, probabilities = self._model.predict(" ".join(text.split()))
        if not labels or labels[0] not in self._keep:
            rule = "keep"
        elif probabilities[0] < self._least:
            rule = "min_probability"
        else:
            return text, None
        taken[f"language.{rule}"] = TakenByRule.of_one(len(text), text)
        return text, rule


class Judged(NamedTuple):
    """A document as it is to be written, or why it is not; and what was replaced or taken."""

    text: str
    refusal: str | None
    replaced_bytes: int
    nul_bytes: int
    byte_order_marks: int
    taken: dict[str, TakenByRule]


@dataclass
class SplitCounts:
    """What became of a split's documents: `read` is the sum of all other `filters`."""

    filters: dict[str, int]
    rules: dict[str, TakenByRule]
    replaced_bytes: int = 0
    nul_bytes: int = 0
    byte_order_marks: int = 0

    def add(self, judged: Judged | None) -> None:
        """Count a document that was read; None: it was kept as it is."""
        self.filters["read"] += 1
        if judged is None:
            return
        self.replaced_bytes += judged.replaced_bytes
        self.nul_bytes += judged.nul_bytes
        self.byte_order_marks += judged.byte_order_marks
        add_taken(self.rules, judged.taken)
        if judged.refusal:
            self.filters[judged.refusal] += 1


class Filters:
    """The section `corpus.filters` applied to documents."""

    def __init__(self, settings: Mapping):
        self._normalisation = settings["normalisation"]
        self._shortest, self._longest = settings["min_characters"], settings["max_characters"]
        families = {
            "quality": Quality(settings.get("quality", {})),
            "language": Language(settings.get("language", {})),
        }
        self._rules = {name: family for name, family in families.items() if family.rules}

    def counts(self) -> SplitCounts:
        """The counts of a split before anything was read."""
        reasons = ["empty", "too_short", "too_long", "duplicate", "leaked", *self._rules]
        rules = [rule for family in self._rules.values() for rule in family.rules]
        counts = dict.fromkeys(("read", *reasons, "kept"), 0)
        return SplitCounts(counts, dict.fromkeys(rules, NOTHING))

    def keep_as_is(self, raw: str) -> bool:
        """Whether `raw` is surely kept unchanged, as most documents are: `judged` costs more."""
        unchanged = raw.isascii() or self._normalisation == "none"
        return not self._rules and unchanged and is_clean(raw) and self._refusal(raw) is None

    def judged(self, raw: str) -> Judged:
        """`raw` prepared and filtered."""
        text, *counts = prepared(raw, self._normalisation)
        taken: dict[str, TakenByRule] = {}
        refusal = self._refusal(text)
        for name, family in self._rules.items():
            if refusal is None:
                before = text
                text, rule = family.judged(text, taken)
                if rule or not text:
                    refusal = name
                elif text != before:
                    refusal = self._refusal(text)
        return Judged(text, refusal, *counts, taken)

    def _refusal(self, text: str) -> str | None:
        # Lengths are in characters (code points); a document of white space alone is empty.
        if not text or text.isspace():
            return "empty"
        if len(text) < self._shortest:
            return "too_short"
        if self._longest is not None and len(text) > self._longest:
            return "too_long"
        return None


def prepared(text: str, normalisation: str) -> CleanText:
    """`text` cleaned and in the Unicode form `normalisation`."""
    cleaned = clean(text)
    # ASCII is in every normalisation form already.
    if normalisation == "none" or text.isascii():
        return cleaned
    return cleaned._replace(text=unicodedata.normalize(normalisation, cleaned.text))

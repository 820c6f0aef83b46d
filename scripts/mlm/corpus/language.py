"""The language of a document, by a model in fastText's format (Joulin et al., 2016, arXiv
1607.01759) that the user names, such as lid.176.ftz."""

import difflib
import importlib.util
from collections.abc import Mapping

from mlm.corpus.artefacts import TakenByRule
from mlm.foundations.errors import MlmError

_LABEL = "__label__"
_INSTALL = ".venv/bin/python -m pip install --require-hashes -r envs/requirements-language.txt"


class Language:
    """The rules of `corpus.filters.language`; MlmError if the library, a language or the model is
    missing."""

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

"""The language of a document, by a model in fastText's format (Joulin et al., 2016, arXiv
1607.01759) that the user names, such as lid.176.ftz."""

import difflib
import importlib.util
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from mlm.corpus.artefacts import TakenByRule
from mlm.foundations.errors import MlmError

#: fastText's src/fasttext.cc: the first two integers of a file, and the newest version of it.
_MAGIC, _VERSION = 793712314, 12
#: In fastText's src/args.h: the models that classify. It is the eighth of the settings that follow.
_CLASSIFIER, _MODEL_PLACE = 3, 7
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
        labels = _labels(Path(path))
        if unknown := [language for language in settings["keep"] if language not in labels]:
            close = difflib.get_close_matches(unknown[0], labels, n=3) or sorted(labels)[:10]
            raise MlmError(
                f"corpus.filters.language.keep: {path} knows no language {unknown[0]!r}; it has "
                f"{len(labels)}, among them {', '.join(close)}"
            )
        import fasttext

        self._model = fasttext.load_model(str(path))

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


def _labels(path: Path) -> list[str]:
    """The languages of the model `path`; MlmError if it cannot be used."""
    named = f"corpus.filters.language.model: {path}"
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
            labels = _read_labels(model)
    except (OSError, ValueError, OverflowError, struct.error) as error:
        raise MlmError(
            f"{named} is no whole model of languages in fastText's format, version {_VERSION} or "
            f"older ({error}). Name one, such as lid.176.ftz from fasttext.cc, or fetch it again"
        ) from None
    if importlib.util.find_spec("fasttext") is None:
        raise MlmError(
            f"{named} needs the package fasttext-predict, which is not installed. Install it with"
            f"\n  {_INSTALL}\nor set the key to null"
        )
    return labels


def _read_labels(model: mmap.mmap) -> list[str]:
    """The labels of a model, whose parts must end where the file ends: fastText reads on beyond."""

    def numbers(layout: str) -> tuple:
        return struct.unpack(layout, model.read(struct.calcsize(layout)))

    def skip(size: int) -> None:
        model.seek(size, os.SEEK_CUR)

    def skip_matrix(quantised: bool) -> None:
        if not quantised:
            rows, columns = numbers("<2q")
            return skip(4 * rows * columns)
        with_norms, rows, _, codes = numbers("<?2qi")
        for size in (codes, rows)[: 1 + with_norms]:
            skip(size)
            # A quantiser's 256 centroids.
            skip(4 * 256 * numbers("<4i")[0])

    magic, file_version, *settings = numbers("<2i12id")
    if magic != _MAGIC or file_version > _VERSION or settings[_MODEL_PLACE] != _CLASSIFIER:
        raise ValueError("of another kind or version")
    size, _, _, _, pruned = numbers("<3i2q")
    labels = []
    for _ in range(size):
        # A word or a label ends in a zero byte, and a count and a kind follow it.
        name = model.read(model.find(b"\0") - model.tell())
        if numbers("<xqb")[1] == 1:
            labels.append(name.decode("utf-8", "replace").removeprefix(_LABEL))
    skip(8 * max(pruned, 0))
    (quantised,) = numbers("<?")
    skip_matrix(quantised)
    (output_quantised,) = numbers("<?")
    skip_matrix(quantised and output_quantised)
    if model.tell() != len(model):
        raise ValueError("its parts do not end where the file ends")
    return labels

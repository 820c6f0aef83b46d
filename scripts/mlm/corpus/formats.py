"""What the name and the beginning of a file tell of its format; light, for Snakemake."""

import os
import re
import shlex
from pathlib import Path

from mlm.foundations.errors import MlmError, printable

#: Formats by the ending of a file; `_READERS` of mlm.corpus.document_reading reads them. A .json
#: file has an object a line, as C4's.
FORMATS = ("txt", "jsonl", "json", "csv", "tsv", "parquet")
COMPRESSIONS = {"gz": "gzip", "zst": "zstd", "xz": "xz", "bz2": "bzip2"}
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGE = re.compile(
    rb"\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(!doctype\s+html|html|error)\b", re.I | re.S
)
#: Larger files are no error pages.
_PAGE_BYTES = 1 << 20


def file_format(path: str) -> tuple[str, str | None]:
    """Return format and compression (None: plain) of `path`. MlmError for unknown endings."""
    endings = Path(path).name.lower().split(".")[1:]
    compression = COMPRESSIONS.get(endings[-1]) if endings else None
    if compression:
        endings.pop()
    if not endings or endings[-1] not in FORMATS:
        raise MlmError(
            f"{path}: its name does not show its format; expected one of "
            f"{', '.join('.' + f for f in FORMATS)}, plain or followed by "
            f"{', '.join('.' + c for c in COMPRESSIONS)}. Rename it, or narrow the pattern"
        )
    return endings[-1], compression


def unreadable(path: str) -> str | None:
    """Return why the file `path` cannot be read, with the remedy; None if it can be."""
    if problem := not_fetched(path):
        return problem
    try:
        file_format(path)
    except MlmError as error:
        return str(error)
    return None


def not_fetched(path: str) -> str | None:
    """Return why a file is a pointer or an error page, with the remedy; None if it is not."""
    with open(path, "rb") as file:
        beginning = file.read(512).removeprefix(b"\xef\xbb\xbf")
    name = printable_path(path)
    if beginning.startswith(_LFS_POINTER):
        return (
            f"{name} is a pointer of Git LFS, not the file. Fetch that: git lfs pull --include "
            f"{shlex.quote(name)}"
        )
    if _PAGE.match(beginning) and os.path.getsize(path) < _PAGE_BYTES:
        return (
            f"{name} is an HTML page or an error page of a server. Fetch the file again; pages "
            "that are text to train on go into a .jsonl file"
        )
    return None


def recorded_path(path: str) -> str:
    """Return the name of the file `path` in records: an absolute path loses its directory."""
    return Path(path).name if Path(path).is_absolute() else Path(path).as_posix()


def printable_path(path: str) -> str:
    """Return `path` on one printable line, with bytes that are not UTF-8 escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return printable(text.replace("\n", r"\n").replace("\t", r"\t"))

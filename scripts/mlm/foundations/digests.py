"""The identity of files, values and results, by their sha256; and how two nested values differ."""

import csv
import hashlib
import io
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlm.foundations.atomic import canonical_json, write_text

#: Source files up to this size are told apart by their content; larger ones by size and date.
LARGEST_READ = 1_000_000_000
#: A file changed less than this many seconds ago is not remembered: a second change might leave
#: its dates as they are, as far as the file system's clock can tell.
_SETTLED_SECONDS = 2.0
#: Columns of tables that hold seconds or speeds.
_TIMED = ("tokens_per_second",)
_NUMBER = re.compile(r"[0-9.e+-]*")
#: In the place of a value that one of two nested values lacks.
_ABSENT = "(absent)"


def file_sha256(path: str | os.PathLike) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def value_sha256(value: Any) -> str:
    """Return the sha256 of a JSON-like value in its canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def result_sha256(path: str | os.PathLike) -> str:
    """Return the sha256 of a result: of a table with times or speeds, without those numbers."""
    with suppress(ValueError, StopIteration):
        text = Path(path).read_bytes().decode() if str(path).endswith(".csv") else ""
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        if timed := {i for i, name in enumerate(header) if name in _TIMED}:
            lines = [
                ["" if i in timed and _NUMBER.fullmatch(c) else c for i, c in enumerate(row)]
                for row in rows
            ]
            return value_sha256([header, *lines])
    return file_sha256(path)


class FileMemory:
    """What was computed from files, remembered between runs for as long as they stay the same.

    A file is the same while its size, modification date, inode and the inode's change date are. The
    memory is a cache: deleting it costs time only.
    """

    def __init__(self, path: str | os.PathLike | None):
        """Read the memory in the file `path`, if it is there; None keeps it in this process."""
        self._path, self._changed = path, False
        self._known: dict[str, list] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):
            known = json.loads(Path(path).read_bytes()) if path else {}
            self._known = {key: [same, value] for key, (same, value) in known.items()}

    def value(self, kind: str, path: str | os.PathLike, compute: Callable[[Path], Any]) -> Any:
        """Return `compute(path)`, a JSON-like value, or what it gave before for the same file."""
        stat = os.stat(path)
        same = [stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns]
        key = f"{kind} {os.path.abspath(path)}"
        known = self._known.get(key)
        if known is not None and known[0] == same:
            return known[1]
        value = compute(Path(path))
        if time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED_SECONDS:
            self._known[key] = [same, value]
            self._changed = True
        return value

    def sha256(self, path: str | os.PathLike) -> str:
        """Return `file_sha256` of `path`."""
        return self.value("sha256", path, file_sha256)

    def identity(self, path: str | os.PathLike) -> str:
        """Return the sha256 of a source file; above LARGEST_READ bytes, its size and date."""
        stat = os.stat(path)
        if stat.st_size > LARGEST_READ:
            return f"{stat.st_size} bytes of {stat.st_mtime_ns}"
        return self.sha256(path)

    def save(self) -> None:
        """Write the memory back where it came from, where that can be written."""
        if self._path and self._changed:
            with suppress(OSError):
                write_text(self._path, json.dumps(self._known))
                self._changed = False


def differences(before: Any, now: Any, keys: tuple[str, ...] = ()) -> list[str]:
    """Return a line for each leaf in which the settings of a saved state and those of now differ.

    Digests of modules, manifests and tokenizers are not shown.
    """
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            line
            for key in sorted(before.keys() | now.keys())
            for line in differences(
                before.get(key, _ABSENT), now.get(key, _ABSENT), (*keys, str(key))
            )
        ]
    name = ".".join(keys)
    if keys[0] in ("code", "manifests", "tokenizer"):
        return [f"{name.replace('code.', 'code ', 1)} is another"]
    return [f"{name}: {before!r} then, {now!r} now"]

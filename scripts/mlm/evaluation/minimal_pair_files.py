"""Files of minimal pairs: JSONL with the fields of BLiMP (Warstadt et al., 2020), TSV with the
columns of MultiBLiMP (Jumelet, Weissweiler and Bisazza, 2025)."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mlm.corpus.bytes_to_text import table_rows
from mlm.corpus.source_files import not_fetched
from mlm.foundations.errors import MlmError, listed

#: By ending: the acceptable sentence, the unacceptable one, and the phenomenon, the first there is.
COLUMNS = {
    ".jsonl": ("sentence_good", "sentence_bad", ("UID", "linguistics_term")),
    ".tsv": ("sen", "wrong_sen", ("phenomenon",)),
}


@dataclass(frozen=True)
class Pair:
    """Two sentences, the name of their file, and what they differ in, if it says so."""

    acceptable: str
    unacceptable: str
    file: str
    phenomenon: str | None


def read_pair_files(paths: Iterable[str | os.PathLike]) -> list[Pair]:
    """The pairs of `paths` in order; MlmError with the first problem of each file and its line."""
    pairs: list[Pair] = []
    problems: list[str] = []
    for path in map(Path, dict.fromkeys(map(str, paths))):
        before = len(pairs)
        try:
            if problem := not_fetched(str(path)):
                raise MlmError(problem)
            pairs += (_pair(path, where, row) for where, row in _rows(path))
            if len(pairs) == before:
                raise MlmError(f"{path}: holds no pair")
        except MlmError as error:
            problems.append(str(error))
        except (OSError, ValueError) as error:
            problems.append(f"{path}: cannot be read ({error}); expected UTF-8 text")
    if problems:
        raise MlmError(f"evaluation.minimal_pair_files:\n{listed(problems)}")
    return pairs


def _rows(path: Path) -> Iterator[tuple[str, dict]]:
    """The place of each row of the file, and its fields by name."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        if path.suffix == ".jsonl":
            for number, line in enumerate(file, 1):
                where = f"{path}, line {number}"
                try:
                    row = json.loads(line) if line.strip() else None
                except ValueError as error:
                    raise MlmError(f"{where}: no valid JSON ({error})") from None
                if row is not None:
                    yield where, row
            return
        rows = table_rows(file, str(path), "\t")
        _, header = next(rows, (1, []))
        for name in COLUMNS[".tsv"][:2]:
            if header.count(name) != 1:
                raise MlmError(f"{path}, line 1: expected one column {name} in the header")
        for number, row in rows:
            where = f"{path}, line {number}"
            if len(row) != len(header):
                raise MlmError(f"{where}: {len(row)} fields, but the header names {len(header)}")
            yield where, dict(zip(header, row, strict=True))


def _pair(path: Path, where: str, row: dict) -> Pair:
    *names, phenomena = COLUMNS[path.suffix]
    if not isinstance(row, dict):
        raise MlmError(f"{where}: expected an object of fields")
    for name in names:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise MlmError(f"{where}: found {row.get(name)!r} as {name}, expected a sentence")
    good, bad = (row[name] for name in names)
    if good == bad:
        raise MlmError(f"{where}: {good!r} is on both sides of the pair")
    return Pair(good, bad, path.name, next((str(row[n]) for n in phenomena if row.get(n)), None))

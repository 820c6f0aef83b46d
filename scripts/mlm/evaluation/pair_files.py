"""Files of minimal pairs: JSONL with the fields of BLiMP (Warstadt et al., 2020), TSV with the
columns of MultiBLiMP (Jumelet, Weissweiler and Bisazza, 2025)."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mlm.corpus.formats import not_fetched
from mlm.corpus.separated_values import table_rows
from mlm.foundations.errors import MlmError, listed

#: By ending: the acceptable sentence, the unacceptable one, and the phenomenon, the first there is.
COLUMNS = {
    ".jsonl": ("sentence_good", "sentence_bad", ("UID", "linguistics_term")),
    ".tsv": ("sen", "wrong_sen", ("phenomenon",)),
}
#: Problems named at most, and phenomena of all files together.
_NAMED, _PHENOMENA = 20, 1000
#: Joined files have a byte-order mark in the middle, before another header.
_NO_TEXT = re.compile("[\0\ud800-\udfff\ufeff]")


@dataclass(frozen=True)
class Pair:
    """Two sentences, the name of their file, and what they differ in, if it says so."""

    acceptable: str
    unacceptable: str
    file: str
    phenomenon: str | None


def read_pair_files(paths: Iterable[str | os.PathLike]) -> list[Pair]:
    """The pairs of `paths` in order; MlmError with every problem by file and line."""
    pairs: list[Pair] = []
    problems: list[str] = []
    for path in dict.fromkeys(map(str, paths)):
        before = len(pairs), len(problems)
        try:
            if problem := not_fetched(path):
                problems.append(problem)
                continue
            for where, row in _rows(path):
                pair = _pair(Path(path), where, row)
                (problems if isinstance(pair, str) else pairs).append(pair)
        except MlmError as error:
            problems.append(str(error))
        except (OSError, ValueError) as error:
            problems.append(f"{path}: cannot be read ({error}); expected UTF-8 text")
        if before == (len(pairs), len(problems)):
            problems.append(f"{path}: holds no pair")
    if len({(pair.file, pair.phenomenon) for pair in pairs}) > _PHENOMENA:
        problems.append(f"more than {_PHENOMENA:,} phenomena; expected a name that pairs share")
    if problems:
        more = len(problems) - _NAMED
        shown = problems[:_NAMED] + ([f"and {more:,} more"] if more > 0 else [])
        raise MlmError(f"evaluation.minimal_pair_files:\n{listed(shown)}")
    return pairs


def _rows(path: str) -> Iterator[tuple[str, dict | str]]:
    """Where each row of the file is, and its fields or what is wrong with it."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        if path.endswith(".jsonl"):
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}, line {number}", _object(line)
            return
        rows = table_rows(enumerate(file, 1), path, "\t")
        _, header = next(rows, (1, []))
        *sentences, others = COLUMNS[".tsv"]
        if missing := [name for name in sentences if name not in header]:
            yield f"{path}, line 1", f"no column {' and no column '.join(missing)} in the header"
            return
        if twice := [name for name in (*sentences, *others) if header.count(name) > 1]:
            yield f"{path}, line 1", f"several columns are called {twice[0]}; rename all but one"
            return
        for number, row in rows:
            where, count = f"{path}, line {number}", len(row)
            wrong = f"{count} fields, but the header names {len(header)}"
            yield where, wrong if count != len(header) else dict(zip(header, row, strict=True))


def _object(line: str) -> dict | str:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"no valid JSON ({error})"
    return found if isinstance(found, dict) else "expected an object of fields"


def _pair(path: Path, where: str, row: dict | str) -> Pair | str:
    if isinstance(row, str):
        return f"{where}: {row}"
    *names, phenomena = COLUMNS[path.suffix]
    for name in names:
        if not isinstance(row.get(name), str) or not row[name].strip():
            return f"{where}: found {row.get(name)!r} as {name}, expected a sentence"
    for name in (*names, *phenomena):
        if wrong := _NO_TEXT.search(str(row.get(name))):
            return f"{where}: {name} has U+{ord(wrong[0]):04X}, which no text has; take it out"
    good, bad = (row[name] for name in names)
    if good == bad:
        return f"{where}: {good!r} is on both sides of the pair"
    named = (row[name] for name in phenomena if row.get(name))
    return Pair(good, bad, path.name, next(map(str, named), None))

"""Which files the glob patterns of `corpus.files` match; light, for Snakemake."""

import os
import shlex
from collections.abc import Callable
from glob import glob, has_magic
from itertools import zip_longest
from pathlib import Path

from mlm.config.corpus import Files
from mlm.config.fields import SPLITS, unexpanded, wrong_with_name
from mlm.corpus.formats import not_fetched, printable_path, unknown_format
from mlm.foundations.errors import MlmError, listed

#: Where the workflow writes, below the working directory.
_OUTPUTS = ("results", "state", "logs", ".snakemake")


def matched_files(
    patterns: Files, note: Callable[[str], None] = lambda _: None
) -> dict[str, list[str]]:
    """Return by split the files that its glob patterns (or names) match, sorted, each one once.

    `note` gets a line for each file with several names. Raises MlmError with every problem at once.
    """
    files, problems, split_of = {}, [], {}
    for split in SPLITS:
        paths: set[str] = set()
        for pattern in getattr(patterns, split):
            matched, wrong = _matched(pattern)
            paths |= matched
            problems += [f"corpus.files.{split}: {problem}" for problem in wrong]
        files[split] = _each_once(paths, note)
        for path in files[split]:
            other = split_of.setdefault(os.path.realpath(path), split)
            if other != split:
                problems.append(
                    f"corpus.files.{split}: {printable_path(path)} is named for {other} too; a "
                    "file belongs to one of them"
                )
    if problems:
        raise MlmError(f"The files of corpus.files:\n{listed(dict.fromkeys(problems))}")
    return files


def _matched(pattern: str) -> tuple[set[str], list[str]]:
    """Return the files that `pattern` matches, and a line for each problem with them."""
    if "\0" in pattern:
        return set(), [f"{pattern!r} has a NUL, which no name has"]
    # pathlib's glob takes no absolute pattern and shows hidden files.
    is_file = os.path.isfile(pattern)
    matches = [pattern] if is_file else glob(pattern, recursive=True)
    paths = {os.path.normpath(path) for path in matches if not os.path.isdir(path)}
    problems = [] if is_file else _closed_directories(pattern)
    problems += [_problem(path, pattern) for path in sorted(paths)]
    return paths, list(filter(None, problems or [_no_match(pattern)]))


def _problem(path: str, pattern: str) -> str | None:
    name = printable_path(path)
    if os.path.islink(path) and not os.path.exists(path):
        return f"{name} is a link to {printable_path(os.readlink(path))}, which does not exist"
    if not os.access(path, os.R_OK, effective_ids=True):
        closed, right = (path, "r") if os.path.exists(path) else (os.path.dirname(path), "rx")
        name = shlex.quote(printable_path(closed))
        return f"{name} may not be read by this user. Allow it: chmod u+{right} {name}"
    if not os.path.isfile(path):
        return f"{name} is no regular file but a pipe, socket or device; narrow the pattern"
    if os.path.realpath(path).startswith(tuple(os.path.realpath(p) + os.sep for p in _OUTPUTS)):
        return (
            f"{pattern!r} matches files in {os.path.dirname(path)}, which the workflow itself "
            "writes. Narrow the pattern to your texts (data/*.txt), or run elsewhere (snakemake "
            "--directory)"
        )
    if problem := wrong_with_name(path):
        return f"{name} {problem}"
    if os.path.getsize(path) == 0:
        return f"{path} is empty (0 bytes); fill it or leave it out"
    return not_fetched(path) or unknown_format(path)


def _closed_directories(pattern: str) -> list[str]:
    """Return a line for each directory of `pattern` that this user may not search: `glob` skips
    it."""
    parts = pattern.split("/") if os.path.isabs(pattern) else [".", *pattern.split("/")]
    closed = set()
    for n, (part, following) in enumerate(zip_longest(parts, parts[1:])):
        if following is None and part != "**":
            break
        # A name without wildcards needs no listing of its directory.
        needed = os.X_OK | (os.R_OK if part == "**" or has_magic(following) else 0)
        for path in glob("/".join(parts[: n + 1]) + "/", recursive=True):
            if not os.access(path, needed, effective_ids=True):
                closed.add(printable_path(os.path.normpath(path)))
    return [
        f"The directory {path} may not be read by this user, so {pattern!r} finds no file in it. "
        f"Allow it: chmod u+rx {shlex.quote(path)}"
        for path in sorted(closed)
    ]


def _each_once(paths: set[str], note: Callable[[str], None]) -> list[str]:
    """Return `paths` sorted, one for each file: no link if there is another name, no absolute
    path."""

    def is_link(path: str) -> bool:
        return os.path.realpath(path) != os.path.join(os.path.realpath("."), path)

    chosen: dict[str, str] = {}
    for path in sorted(paths, key=lambda p: (is_link(p), os.path.isabs(p), p)):
        first = chosen.setdefault(os.path.realpath(path), path)
        if first != path:
            names = printable_path(path), printable_path(first)
            note("{} is read once, as {}: it is the same file".format(*names))
    return sorted(chosen.values())


def _no_match(pattern: str) -> str:
    if os.path.isdir(pattern):
        return f"{pattern!r} is a directory; name files: {os.path.join(pattern, '*.txt')}"
    # pathlib's exists() raises if a directory may not be entered.
    where = Path.cwd() / pattern
    while has_magic(str(where)) or not os.path.exists(where):
        where = where.parent
    closed = not os.access(where, os.R_OK | os.X_OK, effective_ids=True)
    return (
        f"no file matches {pattern!r} (looked in {where}"
        f"{', which this user may not read' if closed else ''}). To see what is there: ls {where}. "
        f"Patterns are relative to the directory that Snakemake works in{unexpanded(pattern)}"
    )

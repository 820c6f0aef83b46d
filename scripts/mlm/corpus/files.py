"""Which files the configuration's glob patterns name, and which settings a source uses.

Light on purpose: Snakemake imports it to list the files as inputs of the rule `corpus`, so
that an edited source file reruns, and a pattern without a match stops before the first job.
"""

import os
import re
from glob import glob
from pathlib import Path

from mlm.errors import MlmError

FORMATS = ("txt", "jsonl", "csv", "tsv", "parquet")
COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}


def file_format(path: str) -> tuple[str, str | None]:
    """Format and compression (None: plain) of `path` by its endings: x.csv.gz, csv and gzip.

    Raises MlmError for an ending that is not read.
    """
    endings = Path(path).name.lower().split(".")[1:]
    compression = COMPRESSIONS.get(endings[-1]) if endings else None
    if compression:
        endings.pop()
    if not endings or endings[-1] not in FORMATS:
        raise MlmError(
            f"{path}: what it holds cannot be told from its name; expected one of "
            f"{', '.join('.' + f for f in FORMATS)}, plain or followed by .gz or .zst. Rename "
            "it, or narrow the pattern in corpus.files"
        )
    return endings[-1], compression


def matched_files(patterns: dict[str, list[str]]) -> dict[str, list[str]]:
    """By split, the files that its glob patterns match, sorted by path, each one once.

    Patterns are relative to the working directory; `**` matches any number of directories.
    The order is that of the paths' characters, whatever the file system says.

    Raises MlmError with every problem at once: a pattern without a match and where was
    looked, an unknown ending, an empty file, a file in two splits.
    """
    files, problems, owner = {}, [], {}
    for split, globs in patterns.items():
        found = set()
        for pattern in globs:
            # pathlib's own glob takes no absolute pattern and shows hidden files.
            matches = {os.path.normpath(p) for p in glob(pattern, recursive=True)}
            matches = {p for p in matches if Path(p).is_file()}
            if not matches:
                problems.append(_no_match(split, pattern))
            found |= matches
        files[split] = sorted(found)
        for path in files[split]:
            problems += _file_problems(split, path, owner)
    if problems:
        raise MlmError("\n".join(["The files of the corpus:", *(f"  - {p}" for p in problems)]))
    return files


def _no_match(split: str, pattern: str) -> str:
    where = Path.cwd() / pattern
    while any(c in str(where) for c in "*?[") or not where.exists():
        where = where.parent
    if Path(pattern).is_dir():
        return f"corpus.files.{split}: {pattern!r} is a directory; name files: {pattern}/*.txt"
    return f"corpus.files.{split}: no file matches {pattern!r} (looked in {where})"


def _file_problems(split: str, path: str, owner: dict[str, str]) -> list[str]:
    problems = []
    try:
        file_format(path)
    except MlmError as error:
        problems.append(f"corpus.files.{split}: {error}")
    if Path(path).stat().st_size == 0:
        problems.append(f"corpus.files.{split}: {path} is empty (0 bytes); fill it or leave it out")
    if "{" in path or "}" in path:
        problems.append(
            f"corpus.files.{split}: {path} has a brace in its name, which Snakemake reads as a "
            "wildcard; rename it"
        )
    identity = os.path.realpath(path)
    if identity in owner and owner[identity] != split:
        problems.append(
            f"corpus.files.{split}: {path} is named for {owner[identity]} too; a file belongs "
            "to one split"
        )
    owner[identity] = split
    return problems


def check_pinned(revision: str) -> None:
    """Raise MlmError unless a Hub revision is a whole commit id, which cannot move."""
    if not re.fullmatch("[0-9a-f]{40}", revision):
        raise MlmError(
            f"corpus.hub.revision: {revision!r} is no commit id; expected its 40 hexadecimal "
            "digits, since a branch or a tag can come to mean other data. They stand on the "
            "dataset's page on the Hub, under Files, History"
        )


def used_settings(corpus: dict, seed: int) -> dict:
    """The part of the section `corpus`, and the seed, that shapes this source's result.

    What another source reads, or nothing reads, is left out, so that changing it reruns
    nothing: the seed, for instance, where all three splits are given.
    """
    source = corpus["source"]
    used = {key: corpus[key] for key in ("source", "filters", "encoding_errors")}
    missing = ["validation", "test"]
    if source == "files":
        used["files"] = corpus["files"]
        missing = [s for s in missing if not corpus["files"][s]]
    elif source == "hub":
        used["hub"] = corpus["hub"]
        missing = [s for s in missing if not corpus["hub"]["splits"][s]]
    if source != "embedded":
        used["text_column"] = corpus["text_column"]
    used["held_out"] = {split: corpus["held_out"][split] for split in missing}
    used["seed"] = seed if missing else None
    return used

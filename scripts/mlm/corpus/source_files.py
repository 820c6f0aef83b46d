"""Which files the corpus is read from, in which formats, and how jobs divide them; light, for
Snakemake."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path

from mlm.config.corpus import Corpus, CorpusConfiguration, Files
from mlm.config.fields import SPLITS, unexpanded, wrong_with_file, wrong_with_name
from mlm.foundations.errors import MlmError, listed, printable

#: Paths by split.
SplitFiles = Mapping[str, Sequence[str]]
#: Formats by the ending of a file; `_READERS` of mlm.corpus.document_formats reads them. A .json
#: file has one object per line, as C4's.
FORMATS = ("txt", "jsonl", "json", "csv", "tsv", "parquet")
COMPRESSIONS = {"gz": "gzip", "zst": "zstd", "xz": "xz", "bz2": "bzip2"}
#: Where the workflow writes, below the working directory.
_OUTPUTS = ("results", "state", "logs", ".snakemake")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def file_format(path: str) -> tuple[str, str | None]:
    """Return format and compression (None: plain) of `path`. MlmError for unknown endings."""
    endings = Path(path).name.lower().split(".")[1:]
    compression = COMPRESSIONS.get(endings[-1]) if endings else None
    if compression:
        endings.pop()
    kind = endings[-1] if endings else None
    if kind not in FORMATS or (compression and kind == "parquet"):
        raise MlmError(
            f"{path}: its name does not show its format; expected .parquet, or one of "
            f"{', '.join('.' + f for f in FORMATS[:-1])}, plain or followed by "
            f"{', '.join('.' + c for c in COMPRESSIONS)}. Rename it, or narrow the pattern"
        )
    return kind, compression


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
    """Return what to do about a file that is a pointer to another; None if it is not."""
    with open(path, "rb") as file:
        beginning = file.read(512).removeprefix(b"\xef\xbb\xbf")
    name = printable_path(path)
    if beginning.startswith(_LFS_POINTER):
        return (
            f"{name} is a pointer of Git LFS, not the file. Fetch that: git lfs pull --include "
            f"{shlex.quote(name)}"
        )
    return None


def recorded_path(path: str) -> str:
    """Return the name of the file `path` in records: an absolute path loses its directory."""
    return Path(path).name if Path(path).is_absolute() else Path(path).as_posix()


def printable_path(path: str) -> str:
    """Return `path` on one printable line, with bytes that are not UTF-8 escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return printable(text.replace("\n", r"\n").replace("\t", r"\t"))


def matched_files(patterns: Files) -> dict[str, list[str]]:
    """Return by split the files that its glob patterns (or names) match, sorted, each one once.
    Raises MlmError with every problem at once."""
    files, problems, split_of = {}, [], {}
    for split in SPLITS:
        paths: set[str] = set()
        for pattern in getattr(patterns, split):
            matched, wrong = _matched(pattern)
            paths |= matched
            problems += [f"corpus.files.{split}: {problem}" for problem in wrong]
        files[split] = sorted(paths)
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
    matches = [pattern] if os.path.isfile(pattern) else glob(pattern, recursive=True)
    paths = {os.path.normpath(path) for path in matches if not os.path.isdir(path)}
    problems = [problem for path in sorted(paths) if (problem := _problem(path, pattern))]
    return paths, problems if paths else [_no_match(pattern)]


def _problem(path: str, pattern: str) -> str | None:
    name = printable_path(path)
    if not os.path.isfile(path):
        return f"{name} is no regular file but a broken link, a pipe or a device"
    if not os.access(path, os.R_OK, effective_ids=True):
        return f"{name} may not be read by this user. Allow it: chmod u+r {shlex.quote(name)}"
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
    return unreadable(path)


def _no_match(pattern: str) -> str:
    if os.path.isdir(pattern):
        return f"{pattern!r} is a directory; name files: {os.path.join(pattern, '*.txt')}"
    # pathlib's exists() raises if a directory may not be entered.
    where = Path.cwd() / pattern
    while has_magic(str(where)) or not os.path.exists(where):
        where = where.parent
    return (
        f"no file matches {pattern!r} (looked in {where}). To see what is there: ls {where}. "
        f"Patterns are relative to the directory that Snakemake works in{unexpanded(pattern)}"
    )


def files_of_sources(corpus: Corpus) -> dict[str, SplitFiles]:
    """Return the files of each source by name and split. Raises MlmError with every problem."""
    files, problems = {}, []
    for name, source in corpus.sources().items():
        files[name] = {split: [] for split in SPLITS}
        if source.source != "files":
            continue
        prefix = f"corpus.mix.{name}: " if name else ""
        try:
            files[name] = matched_files(source.files)
        except MlmError as error:
            if not name:
                raise
            problems.append(f"{prefix}{error}")
        plain = [p for some in files[name].values() for p in some if file_format(p)[0] == "txt"]
        if source.group_by is not None and plain:
            problems.append(
                f"{prefix}corpus.group_by: {source.group_by!r} names a column, and {plain[0]} is a "
                "text file without columns. Set it to null, or convert the text to .jsonl"
            )
    if problems:
        raise MlmError(f"The sources of the corpus:\n{listed(problems)}")
    return files


def filter_files(configuration: CorpusConfiguration) -> list[str]:
    """Return the paths that all filters name, sorted. Raises MlmError if there is no such file."""
    filters = [source.filters.decontamination for source in configuration.corpus.sources().values()]
    paths = sorted({path for one in filters for path in one.against})
    if problems := [p for path in paths if (p := wrong_with_file(path) or unreadable(path))]:
        raise MlmError(f"The files of corpus.filters.decontamination.against:\n{listed(problems)}")
    return paths


@dataclass(frozen=True)
class Part:
    """What is read at once of a source: files by split, or one of several `shares` of a dataset's
    rows."""

    source: str = ""
    files: SplitFiles = field(default_factory=dict)
    share: int = 0
    shares: int = 1

    @property
    def paths(self) -> list[str]:
        """The files of all splits."""
        return [path for paths in self.files.values() for path in paths]


def planned_parts(corpus: Corpus, files: Mapping[str, SplitFiles]) -> list[Part]:
    """Return at most `corpus.parts` parts of each source, with its `files` by name."""
    count, parts = corpus.parts, []
    for name, source in corpus.sources().items():
        if source.source == "files":
            parts += [Part(name, some) for some in _divided(files[name], count)]
        elif source.source == "hub" and source.group_per is None:
            parts += [Part(name, share=n, shares=count) for n in range(count)]
        else:
            parts.append(Part(name))
    return parts


def _divided(files: SplitFiles, parts: int) -> list[SplitFiles]:
    """Return `files` in at most `parts` parts of about equal bytes, in their order, none empty."""
    sizes = [(split, p, os.path.getsize(p)) for split, paths in files.items() for p in paths]
    total, offset = sum(size for _, _, size in sizes), 0
    groups: dict[int, dict[str, list[str]]] = {}
    for split, path, size in sizes:
        # By its middle, so that parts of few files are about equal.
        group = groups.setdefault((2 * offset + size) * parts // (2 * total), {})
        group.setdefault(split, []).append(path)
        offset += size
    return list(groups.values())

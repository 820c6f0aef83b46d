"""Which files the corpus is read from, and how jobs divide them; light, for Snakemake."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from itertools import takewhile
from pathlib import Path

from mlm.config.corpus import Corpus, CorpusConfiguration, Files
from mlm.config.fields import SPLITS, unexpanded, wrong_with_file, wrong_with_name
from mlm.corpus.formats import file_format, not_fetched, printable_path, unreadable
from mlm.foundations.errors import MlmError, listed

#: Paths by split.
SplitFiles = Mapping[str, Sequence[str]]
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
    return unreadable(path)


def _closed_directories(pattern: str) -> list[str]:
    """Return a line for each directory of `pattern` that this user may not search."""
    fixed = list(takewhile(lambda part: not has_magic(part), pattern.split("/")[:-1]))
    root, closed = "/".join(fixed) or (os.sep if os.path.isabs(pattern) else "."), []
    if "**" in pattern:
        for _ in os.walk(root, onerror=lambda error: closed.append(error.filename)):
            pass
    elif os.path.exists(root) and not os.access(root, os.R_OK | os.X_OK, effective_ids=True):
        closed.append(root)
    return [
        f"The directory {name} may not be read by this user, so {pattern!r} finds no file in it. "
        f"Allow it: chmod u+rx {shlex.quote(name)}"
        for name in map(printable_path, sorted(closed))
    ]


def _each_once(paths: set[str], note: Callable[[str], None]) -> list[str]:
    """Return `paths` sorted, one for each file: rather no link, and no absolute path."""

    def is_link(path: str) -> bool:
        return os.path.realpath(path) != os.path.join(os.path.realpath("."), path)

    chosen: dict[str, str] = {}
    for path in sorted(paths, key=lambda p: (is_link(p), os.path.isabs(p), p)):
        first = chosen.setdefault(os.path.realpath(path), path)
        if first != path:
            name, other = printable_path(path), printable_path(first)
            note(f"{name} is read once, as {other}: it is the same file")
    return sorted(chosen.values())


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


def files_of_sources(corpus: Corpus, note: Callable[[str], None]) -> dict[str, SplitFiles]:
    """Return the files of each source by name and split. Raises MlmError with every problem."""
    files, problems = {}, []
    for name, source in corpus.sources().items():
        files[name] = {split: [] for split in SPLITS}
        if source.source != "files":
            continue
        prefix = f"corpus.mix.{name}: " if name else ""
        try:
            files[name] = matched_files(source.files, note)
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
    named: dict[str, str] = {}
    for source in configuration.corpus.sources().values():
        filters = source.filters
        if filters.language.model:
            named.setdefault(filters.language.model, "language.model")
        for path in filters.decontamination.against:
            named.setdefault(path, "decontamination.against")
    if table := configuration.texts.finetuning_file:
        named.setdefault(table, "decontamination.also: finetuning (finetune.data.file)")
    problems = []
    for path, key in named.items():
        unfit = not_fetched if key == "language.model" else unreadable
        if problem := wrong_with_file(path) or unfit(path):
            problems.append(f"corpus.filters.{key}: {problem}")
    if problems:
        raise MlmError(f"The files of the corpus' filters:\n{listed(problems)}")
    return sorted(named)


@dataclass(frozen=True)
class Part:
    """The input of one job: files by split, or one of several `shares` of a dataset's rows."""

    source: str = ""
    files: SplitFiles = field(default_factory=dict)
    share: int = 0
    shares: int = 1

    @property
    def paths(self) -> list[str]:
        """The files of all splits."""
        return [path for paths in self.files.values() for path in paths]


def planned_parts(
    corpus: Corpus,
    files: Mapping[str, SplitFiles],
    note: Callable[[str], None],
    in_bucket: bool = False,
) -> list[Part]:
    """Return at most `corpus.parts` parts of each source, with its `files` by name. `note` gets a
    line for each with fewer. Raises MlmError for several parts of results `in_bucket`."""
    is_mix, count, parts = corpus.source == "mix", corpus.parts, []
    if in_bucket and (is_mix or count > 1):
        raise MlmError(
            f"corpus.{'source: mix' if is_mix else f'parts: {count}'} needs a file system that all "
            "jobs see, and results are to lie in a bucket. Make the corpus where there is one "
            f"(profiles/slurm){'' if is_mix else ', or set it to 1'}"
        )
    for name, source in corpus.sources().items():
        of_source = [Part(name)]
        if source.source == "files":
            of_source = [Part(name, some) for some in _divided(files[name], count)]
        elif source.source == "hub" and source.group_per is None:
            of_source = [Part(name, share=n, shares=count) for n in range(count)]
        if len(of_source) < count:
            note(
                f"corpus.parts: {count}, but the source{name and f' {name}'} is read in "
                f"{len(of_source)}: it cannot be divided further."
            )
        parts += of_source
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

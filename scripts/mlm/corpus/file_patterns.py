"""Which files the configuration's glob patterns name, and which settings a source uses.

Light on purpose: Snakemake imports it to list the files as inputs of the rule `corpus`, so
that an edited source file reruns, and a pattern without a match stops before the first job.
"""

import getpass
import os
import re
import shlex
from collections.abc import Callable, Mapping
from glob import glob, has_magic
from pathlib import Path

from mlm.config.corpus import encoding_name
from mlm.config.filters import quality_rules
from mlm.config.resolution import Settings, run_section
from mlm.foundations.errors import MlmError, listed, printable

#: Where the workflow writes, below the working directory.
_OWN_PLACES = ("results", "state", "logs", ".snakemake")
#: What `_READERS` of mlm.corpus.formats reads; named here without its libraries.
FORMATS = ("txt", "jsonl", "csv", "tsv", "parquet")
COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


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


def matched_files(
    patterns: dict[str, list[str]], note: Callable[[str], None] = lambda _: None
) -> dict[str, list[str]]:
    """By split, the files that its glob patterns match, sorted by path, each one once.

    Patterns are relative to the working directory; `**` matches any number of directories. A
    pattern that is also the name of a file is that file. The order is that of the paths'
    characters, whatever the file system says. A file of several names, by links or as a
    relative and an absolute path, is read once; `note` is told of the other names.

    Raises MlmError with every problem at once: a pattern without a match and where was
    looked, one that meets this workflow's results, a directory or file that may not be read, a link
    to nothing, a name that is not UTF-8 or has a control character, an unknown ending, an empty
    file, a file in two splits.
    """
    files, problems, owner = {}, [], {}
    for split, globs in patterns.items():
        found = set()
        for pattern in globs:
            matches, refused = _matches(pattern)
            problems += [f"corpus.files.{split}: {problem}" for problem in refused]
            if not matches and not refused:
                problems.append(_no_match(split, pattern))
            found |= matches
        files[split] = _each_once(found, note)
        for path in files[split]:
            problems += _file_problems(split, path, owner)
    if problems:
        raise MlmError(f"The files of the corpus:\n{listed(dict.fromkeys(problems))}")
    return files


def _matches(pattern: str) -> tuple[set[str], list[str]]:
    """The files that `pattern` matches, and what is wrong with the rest."""
    # pathlib's own glob takes no absolute pattern and shows hidden files.
    is_file = os.path.isfile(pattern)
    named = [pattern] if is_file else glob(pattern, recursive=True)
    paths = {os.path.normpath(path) for path in named}
    problems = [
        f"{_printable(path)} is a link to {_printable(os.readlink(path))}, which does not exist. "
        "Restore that file, or remove the link"
        for path in sorted(paths)
        if os.path.islink(path) and not os.path.exists(path)
    ]
    files = {path for path in paths if os.path.isfile(path)}
    problems += [
        f"{_printable(path)} is no regular file but a pipe, socket or device. Write its text to a "
        "file, or narrow the pattern"
        for path in sorted(paths - files)
        if os.path.exists(path) and not os.path.isdir(path)
    ]
    problems += [
        f"{_printable(path)} may not be read by this user ({getpass.getuser()}). Allow it: "
        f"chmod u+r {shlex.quote(_printable(path))}"
        for path in sorted(files)
        if not os.access(path, os.R_OK, effective_ids=True)
    ]
    problems += [
        f"The directory {_printable(path)} may not be read by this user ({getpass.getuser()}), so "
        f"{pattern!r} finds no file in it. Allow it: chmod u+rx {shlex.quote(_printable(path))}"
        for path in ([] if is_file else _closed_directories(pattern))
    ]
    places = tuple(os.path.realpath(place) + os.sep for place in _OWN_PLACES)
    own = sorted(path for path in files if os.path.realpath(path).startswith(places))
    if own:
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        problems.append(
            f"{pattern!r} matches {own[0]}{more}, which the workflow itself writes. Narrow the "
            "pattern to your texts (data/*.txt), or run elsewhere (snakemake --directory)"
        )
    return files - set(own), problems


def _closed_directories(pattern: str) -> list[str]:
    """The directories on the way of `pattern` that this user may not search: glob skips them."""
    parts = pattern.split("/") if os.path.isabs(pattern) else [".", *pattern.split("/")]
    closed = set()
    for n, part in enumerate(parts):
        following = parts[n + 1] if n + 1 < len(parts) else None
        if following is None and part != "**":
            break
        # A name is found without listing its directory.
        lists = part == "**" or has_magic(following)
        needed = os.X_OK | (os.R_OK if lists else 0)
        for path in glob("/".join(parts[: n + 1]) + "/", recursive=True):
            if not os.access(path, needed, effective_ids=True):
                closed.add(os.path.normpath(path))
    return sorted(closed)


def _each_once(paths: set[str], note: Callable[[str], None]) -> list[str]:
    """`paths` sorted, one for each file: no link where there is another name, no absolute path."""
    chosen: dict[str, str] = {}
    for path in sorted(paths, key=lambda p: (_through_a_link(p), os.path.isabs(p), p)):
        kept = chosen.setdefault(os.path.realpath(path), path)
        if kept != path:
            note(f"{_printable(path)} is read once, as {_printable(kept)}: it is the same file")
    return sorted(chosen.values())


def _through_a_link(path: str) -> bool:
    return os.path.realpath(path) != os.path.join(os.path.realpath("."), path)


def _printable(path: str) -> str:
    """`path` on one line that every stream takes: bytes that are no UTF-8 are escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return printable(text.replace("\n", r"\n").replace("\t", r"\t"))


def _no_match(split: str, pattern: str) -> str:
    # pathlib's exists() and is_dir() raise where a directory may not be entered.
    where = Path.cwd() / pattern
    while any(c in str(where) for c in "*?[") or not os.path.exists(where):
        where = where.parent
    if os.path.isdir(pattern):
        files = os.path.join(pattern, "*.txt")
        return f"corpus.files.{split}: {pattern!r} is a directory; name files: {files}"
    return (
        f"corpus.files.{split}: no file matches {pattern!r} (looked in {where}). To see what is "
        f"there: ls {where}. Patterns are relative to the directory that Snakemake works in"
    )


def _file_problems(split: str, path: str, owner: dict[str, str]) -> list[str]:
    problems = []
    if any("\ud800" <= character <= "\udfff" for character in path):
        return [
            f"corpus.files.{split}: the name {_printable(path)} is not UTF-8, so that no record "
            "can hold it; rename the file"
        ]
    if _CONTROL.search(path):
        return [
            f"corpus.files.{split}: {_printable(path)} has a control character in its name; "
            "rename it"
        ]
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


def check_group_by(column: str | None, files: dict[str, list[str]]) -> None:
    """Raise MlmError where `corpus.group_by` names a column and one of the files has none.

    `files` are the matched files by split.
    """
    lines = [p for paths in files.values() for p in paths if file_format(p)[0] == "txt"]
    if column is not None and lines:
        raise MlmError(
            f"corpus.group_by: {column!r} names a column, and {lines[0]} is a text file without "
            "columns. Set it to null, or give the text as .jsonl, .csv, .tsv or .parquet"
        )


#: Keys of the section `corpus` that each source of a mix has for itself.
OWN_KEYS = ("source", "files", "hub", "text_column", "group_by", "group_per")
#: Keys of `corpus.filters` that concern all documents together.
OF_ALL = ("deduplicate", "remove_leakage", "near_duplicates")


def sections(corpus: Mapping) -> dict[str | None, dict]:
    """The section `corpus` as each source has it, by its name, in the order of the names.

    Of a corpus that is no mix: as it is, by None.
    """
    if corpus["source"] != "mix":
        return {None: dict(corpus)}
    common = {key: value for key, value in corpus["filters"].items() if key in OF_ALL}
    return {
        name: dict(corpus)
        | {key: own[key] for key in OWN_KEYS}
        | {"filters": (own["filters"] or corpus["filters"]) | common}
        for name, own in sorted(corpus["mix"].items())
    }


def corpus_settings(settings: Settings) -> dict:
    """`used_settings` of a whole configuration.

    `filters.decontamination` has what it asks for of other sections, too: `texts` by name, and of
    the fine-tuning's `table` the file and its column.
    """
    corpus, mask = settings["corpus"], settings["tokenizer"]["special_tokens"]["mask"]
    evaluations = [run_section(settings, run, "evaluation") for run in settings["runs"]]
    prompts = [text.split(mask) for own in evaluations for text in own["prompts"]]
    pairs = [pair for own in evaluations for pair in own["minimal_pairs"]]
    texts = {
        name: list(dict.fromkeys(text for several in found for text in several))
        for name, found in (("prompts", prompts), ("minimal_pairs", pairs))
    }
    table = [settings["finetune"]["data"][key] for key in ("file", "text_column")]

    def filled(filters: dict | None) -> dict | None:
        if filters is None:
            return None
        own = filters["decontamination"]
        if named := {name: texts[name] for name in texts if name in (own["also"] or ())}:
            own = own | {"texts": named}
        if "finetuning" in (own["also"] or ()):
            own = own | {"table": table}
        return filters | {"decontamination": own}

    mix = {name: own | {"filters": filled(own["filters"])} for name, own in corpus["mix"].items()}
    return used_settings(
        corpus | {"filters": filled(corpus["filters"]), "mix": mix}, settings["seed"]
    )


def used_settings(corpus: dict, seed: int, in_mix: bool = False) -> dict:
    """The part of the section `corpus`, and the seed, that shapes this source's result.

    What another source reads, or nothing reads, is left out, so that changing it reruns
    nothing: the seed, for instance, where all three splits are given. Of a mix, each source's own,
    as `in_mix`.
    """
    if corpus["source"] == "mix":
        own = {
            name: used_settings(section, seed, in_mix=True)
            | {"weight": corpus["mix"][name]["weight"]}
            for name, section in sections(corpus).items()
        }
        filters = _used_filters(corpus["filters"], [])
        return {"source": "mix", "mix": own, "filters": filters, "seed": seed}
    source = corpus["source"]
    also = ["validation", "test"] if source == "embedded" and not in_mix else []
    used = {
        "source": source,
        "filters": _used_filters(corpus["filters"], also),
        "encoding_errors": corpus["encoding_errors"],
    }
    missing = ["validation", "test"]
    if source == "files":
        used["files"] = corpus["files"]
        used["encoding"] = encoding_name(corpus["encoding"])
        missing = [s for s in missing if not corpus["files"][s]]
    elif source == "hub":
        used["hub"] = corpus["hub"]
        missing = [s for s in missing if not corpus["hub"]["splits"][s]]
    if source != "embedded":
        used["text_column"] = corpus["text_column"]
        used["group_by"] = corpus["group_by"]
        used["group_per"] = corpus["group_per"]
    used["held_out"] = {split: corpus["held_out"][split] for split in missing}
    used["seed"] = seed if missing else None
    return used


def _used_filters(filters: dict, also: list[str]) -> dict:
    """The section `corpus.filters` without what is off; `also` is decontamination's default."""
    filters = filters | {"quality": quality_rules(filters["quality"])}
    used = {
        key: value for key, value in filters.items() if key != "near_duplicates" or value["enabled"]
    }
    if used["decontamination"]["also"] is None:
        used["decontamination"] = used["decontamination"] | {"also": also}
    return used

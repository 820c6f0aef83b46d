"""Which files glob patterns name, and which settings a source uses; light, for Snakemake."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import zip_longest
from pathlib import Path

from mlm.config.corpus import encoding_name
from mlm.config.fields import unexpanded
from mlm.config.filters import quality_rules
from mlm.config.named_files import wrong_with_name
from mlm.config.resolution import Settings, run_section
from mlm.foundations.errors import MlmError, listed, printable

#: Where the workflow writes, below the working directory.
_OWN_PLACES = ("results", "state", "logs", ".snakemake")


@dataclass(frozen=True)
class Format:
    """Whether the documents of a file have `columns`, and whether parts of it can be read alone."""

    columns: bool = True
    divisible: bool = False


#: By the ending of a file. `_READERS` of mlm.corpus.formats reads them, with its libraries.
FORMATS = {
    "txt": Format(columns=False, divisible=True),
    "jsonl": Format(divisible=True),
    # With an object a line, as C4's.
    "json": Format(divisible=True),
    # Fields may hold line ends.
    "csv": Format(),
    "tsv": Format(),
    "parquet": Format(divisible=True),
}
COMPRESSIONS = {"gz": "gzip", "zst": "zstd", "xz": "xz", "bz2": "bzip2"}
#: How a pointer of Git LFS begins, and how much of a file is looked at for it.
_LFS_POINTER, _BEGINNING = b"version https://git-lfs.github.com/spec/", 512
_PAGE = re.compile(
    rb"\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(!doctype\s+html|html|error)\b", re.I | re.S
)
#: Larger ones are no error pages.
_PAGE_BYTES = 1 << 20


def file_format(path: str) -> tuple[str, str | None]:
    """Format and compression (None: plain) of `path` by its endings; MlmError for unknown ones."""
    endings = Path(path).name.lower().split(".")[1:]
    compression = COMPRESSIONS.get(endings[-1]) if endings else None
    if compression:
        endings.pop()
    if not endings or endings[-1] not in FORMATS:
        raise MlmError(
            f"{path}: what it holds cannot be told from its name; expected one of "
            f"{', '.join('.' + f for f in FORMATS)}, plain or followed by "
            f"{', '.join('.' + c for c in COMPRESSIONS)}. Rename it, or narrow the pattern"
        )
    return endings[-1], compression


def unknown_format(path: str) -> str | None:
    """The message of `file_format` on `path`; None if its endings tell the format."""
    try:
        file_format(path)
    except MlmError as error:
        return str(error)
    return None


def recorded_path(path: str) -> str:
    """What records call the file `path`: an absolute one goes without its directory."""
    return Path(path).name if Path(path).is_absolute() else Path(path).as_posix()


def matched_files(
    patterns: dict[str, list[str]],
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, list[str]]:
    """By split, the files that its glob patterns (or names) match, sorted, each one once.

    `note` is told of files with several names. Raises MlmError with every problem at once.
    """
    files, problems, owner = {}, [], {}
    for split, globs in patterns.items():
        found: set[str] = set()
        for pattern in globs:
            if "\0" in pattern:
                problems.append(f"corpus.files.{split}: {pattern!r} has a NUL, which no name has")
                continue
            # pathlib's own glob takes no absolute pattern and shows hidden files.
            is_file = os.path.isfile(pattern)
            named = [pattern] if is_file else glob(pattern, recursive=True)
            paths = {os.path.normpath(path) for path in named if not os.path.isdir(path)}
            refused = [] if is_file else _closed_directories(pattern)
            refused += [_problem(path, pattern) for path in sorted(paths)]
            refused = refused or [_no_match(pattern)]
            problems += [f"corpus.files.{split}: {problem}" for problem in refused if problem]
            found |= paths
        files[split] = _each_once(found, note)
        for path in files[split]:
            other = owner.setdefault(os.path.realpath(path), split)
            if other != split:
                problems.append(
                    f"corpus.files.{split}: {_shown(path)} is named for {other} too; a file "
                    "belongs to one of them"
                )
    if problems:
        raise MlmError(f"The files of corpus.files:\n{listed(dict.fromkeys(problems))}")
    return files


def _problem(path: str, pattern: str) -> str | None:
    shown = _shown(path)
    if os.path.islink(path) and not os.path.exists(path):
        return f"{shown} is a link to {_shown(os.readlink(path))}, which does not exist"
    if not os.access(path, os.R_OK, effective_ids=True):
        closed, right = (path, "r") if os.path.exists(path) else (os.path.dirname(path), "rx")
        shown = shlex.quote(_shown(closed))
        return f"{shown} may not be read by this user. Allow it: chmod u+{right} {shown}"
    if not os.path.isfile(path):
        return f"{shown} is no regular file but a pipe, socket or device; narrow the pattern"
    if os.path.realpath(path).startswith(tuple(os.path.realpath(p) + os.sep for p in _OWN_PLACES)):
        return (
            f"{pattern!r} matches files in {os.path.dirname(path)}, which the workflow itself "
            "writes. Narrow the pattern to your texts (data/*.txt), or run elsewhere (snakemake "
            "--directory)"
        )
    if problem := wrong_with_name(path):
        return f"{shown} {problem}"
    if Path(path).stat().st_size == 0:
        return f"{path} is empty (0 bytes); fill it or leave it out"
    return not_fetched(path) or unknown_format(path)


def not_fetched(path: str) -> str | None:
    """What a file is that is another one than was meant, and the remedy; None: it may be right."""
    with open(path, "rb") as file:
        beginning = file.read(_BEGINNING).removeprefix(b"\xef\xbb\xbf")
    shown = _shown(path)
    if beginning.startswith(_LFS_POINTER):
        return (
            f"{shown} is a pointer of Git LFS, not the file. Fetch that: git lfs pull --include "
            f"{shlex.quote(shown)}"
        )
    if _PAGE.match(beginning) and os.path.getsize(path) < _PAGE_BYTES:
        return (
            f"{shown} is an HTML page or an error page, such as a server sends instead of a file "
            "that it does not have. Fetch the file again; pages that are text to train on go into "
            "a .jsonl file"
        )
    return None


def _closed_directories(pattern: str) -> list[str]:
    """A line for each directory of `pattern` that this user may not search: `glob` skips it."""
    parts = pattern.split("/") if os.path.isabs(pattern) else [".", *pattern.split("/")]
    closed = set()
    for n, (part, following) in enumerate(zip_longest(parts, parts[1:])):
        if following is None and part != "**":
            break
        # A name is found without listing its directory.
        needed = os.X_OK | (os.R_OK if part == "**" or has_magic(following) else 0)
        for path in glob("/".join(parts[: n + 1]) + "/", recursive=True):
            if not os.access(path, needed, effective_ids=True):
                closed.add(_shown(os.path.normpath(path)))
    return [
        f"The directory {path} may not be read by this user, so {pattern!r} finds no file in it. "
        f"Allow it: chmod u+rx {shlex.quote(path)}"
        for path in sorted(closed)
    ]


def _each_once(paths: set[str], note: Callable[[str], None]) -> list[str]:
    """`paths` sorted, one for each file: no link if there is another name, no absolute path."""

    def is_link(path: str) -> bool:
        return os.path.realpath(path) != os.path.join(os.path.realpath("."), path)

    chosen: dict[str, str] = {}
    for path in sorted(paths, key=lambda p: (is_link(p), os.path.isabs(p), p)):
        kept = chosen.setdefault(os.path.realpath(path), path)
        if kept != path:
            note(f"{_shown(path)} is read once, as {_shown(kept)}: it is the same file")
    return sorted(chosen.values())


def _shown(path: str) -> str:
    """`path` on one printable line, bytes that are no UTF-8 escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return printable(text.replace("\n", r"\n").replace("\t", r"\t"))


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


#: Keys of the section `corpus` that each source of a mix has for itself.
_OWN_KEYS = ("source", "files", "hub", "text_column", "group_by", "group_per")
#: Keys of `corpus.filters` that concern all documents together.
_OF_ALL = ("deduplicate", "remove_leakage", "near_duplicates")


def sections(corpus: Mapping) -> dict[str | None, dict]:
    """The section `corpus` as each source has it, sorted by name; without a mix by None."""
    if corpus["source"] != "mix":
        return {None: dict(corpus)}
    common = {key: corpus["filters"][key] for key in _OF_ALL}
    return {
        name: dict(corpus)
        | {key: own[key] for key in _OWN_KEYS}
        | {"filters": (own["filters"] or corpus["filters"]) | common}
        for name, own in sorted(corpus["mix"].items())
    }


def corpus_settings(settings: Settings) -> dict:
    """`used_settings` of a whole configuration, with `texts` and `table` of decontamination."""
    corpus, mask = settings["corpus"], settings["tokenizer"]["special_tokens"]["mask"]
    evaluations = [run_section(settings, run, "evaluation") for run in settings["runs"]]
    prompts = [part for own in evaluations for text in own["prompts"] for part in text.split(mask)]
    pairs = [text for own in evaluations for pair in own["minimal_pairs"] for text in pair]
    texts = {"prompts": list(dict.fromkeys(prompts)), "minimal_pairs": list(dict.fromkeys(pairs))}
    table = [settings["finetune"]["data"][key] for key in ("file", "text_column")]

    def filled(section: dict) -> dict:
        if section["filters"] is None:
            return section
        own = section["filters"]["decontamination"]
        also = own["also"] or ()
        named = {name: texts[name] for name in texts if name in also}
        own = own | ({"texts": named} if named else {})
        own = own | ({"table": table} if "finetuning" in also else {})
        return section | {"filters": section["filters"] | {"decontamination": own}}

    mix = {name: filled(own) for name, own in corpus["mix"].items()}
    return used_settings(filled(corpus) | {"mix": mix}, settings["seed"])


def used_settings(corpus: dict, seed: int, in_mix: bool = False) -> dict:
    """The part of the section `corpus`, and the seed, that shapes this source's result; of a mix,
    by source. What nothing reads is left out, so that changing it reruns nothing."""
    source = corpus["source"]
    if source == "mix":
        own = {
            name: used_settings(section, seed, True) | {"weight": corpus["mix"][name]["weight"]}
            for name, section in sections(corpus).items()
        }
        filters = _used_filters(corpus["filters"], [])
        return {"source": "mix", "mix": own, "filters": filters, "seed": seed}
    also = ["validation", "test"] if source == "embedded" and not in_mix else []
    given = {"embedded": {}, "files": corpus["files"], "hub": corpus["hub"]["splits"]}[source]
    missing = [split for split in ("validation", "test") if not given.get(split)]
    keys = () if source == "embedded" else (source, "text_column", "group_by", "group_per")
    used = {key: corpus[key] for key in ("source", "encoding_errors", *keys)}
    if source == "files":
        used["encoding"] = encoding_name(corpus["encoding"])
    return used | {
        "filters": _used_filters(corpus["filters"], also),
        "held_out": {split: corpus["held_out"][split] for split in missing},
        "seed": seed if missing else None,
    }


def _used_filters(filters: dict, also: list[str]) -> dict:
    """The section `corpus.filters` without what is off; `also` is decontamination's default."""
    used = filters | {"quality": quality_rules(filters["quality"])}
    if not filters["near_duplicates"]["enabled"]:
        del used["near_duplicates"]
    if used["decontamination"]["also"] is None:
        used["decontamination"] = used["decontamination"] | {"also": also}
    return used

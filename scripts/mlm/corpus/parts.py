"""What the jobs of the corpus read, by the sizes of files; light, as Snakemake imports it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mlm.config.fields import SPLITS
from mlm.config.named_files import wrong_with_file
from mlm.corpus.file_patterns import (
    FORMATS,
    file_format,
    matched_files,
    not_fetched,
    sections,
    unknown_format,
)
from mlm.foundations.errors import MlmError, listed


class Piece(NamedTuple):
    """What begins between two bytes of a file: documents, or row groups. Without an end: all."""

    path: str
    start: int = 0
    stop: int | None = None


#: By split, what is read of it, in order.
Pieces = Mapping[str, Sequence[Piece]]


def whole(files: Mapping[str, Sequence[str]]) -> dict[str, list[Piece]]:
    """All of `files`, by split."""
    return {split: [Piece(path) for path in paths] for split, paths in files.items()}


def files_of_sources(corpus: Mapping, note: Callable[[str], None]) -> dict[str | None, dict]:
    """The files of each source by its name and by split; MlmError with every problem of all."""
    found, problems = {}, []
    for name, section in sections(corpus).items():
        found[name] = {split: [] for split in SPLITS}
        if section["source"] != "files":
            continue
        try:
            found[name] = matched_files({s: section["files"][s] for s in SPLITS}, note)
            _check_group_by(section["group_by"], found[name])
        except MlmError as error:
            if name is None:
                raise
            problems.append(f"corpus.mix.{name}: {error}")
    if problems:
        raise MlmError(f"The sources of the corpus:\n{listed(problems)}")
    return found


def _check_group_by(column: str | None, files: dict[str, list[str]]) -> None:
    """Raise MlmError if `corpus.group_by` names a column and one of the files has none."""
    paths = [path for of_split in files.values() for path in of_split]
    plain = [path for path in paths if not FORMATS[file_format(path)[0]].columns]
    if column is not None and plain:
        *others, last = (f".{ending}" for ending, kind in FORMATS.items() if kind.columns)
        raise MlmError(
            f"corpus.group_by: {column!r} names a column, and {plain[0]} is a text file without "
            f"columns. Set it to null, or give the text as {', '.join(others)} or {last}"
        )


def planned_parts(
    corpus: Mapping, files: Mapping[str | None, dict], note: Callable[[str], None]
) -> list[dict]:
    """What each part reads of the `files_of_sources`: bytes of files or a share of rows; `note` is
    told of a source that cannot be divided."""
    asked, found = corpus["parts"], []
    for name, section in sections(corpus).items():
        own = [{"files": whole(files[name]), "share": [0, 1]}]
        if section["source"] == "files":
            own = [{"files": p, "share": [0, 1]} for p in divided(files[name], section, asked)]
        elif section["source"] == "hub" and section["group_per"] is None:
            own = [{"files": {}, "share": [part, asked]} for part in range(asked)]
        if len(own) < asked:
            of = "" if name is None else f" {name}"
            note(
                f"corpus.parts: {asked}, but the source{of} is read in {len(own)}: it cannot be "
                "divided further."
            )
        for part in own:
            part["files"] = {s: [list(p) for p in pieces] for s, pieces in part["files"].items()}
        found += own if name is None else [part | {"source": name} for part in own]
    return found


def divided(files: Mapping[str, Sequence[str]], corpus: Mapping, parts: int) -> list[Pieces]:
    """At most `parts` parts of about equal bytes, none empty; a file that cannot be divided is
    whole where it begins."""
    sizes = [(split, p, Path(p).stat().st_size) for split, paths in files.items() for p in paths]
    total = sum(size for _, _, size in sizes)
    found: list[dict[str, list[Piece]]] = [{} for _ in range(parts)]
    offset = 0
    for split, path, size in sizes:
        part = offset * parts // total
        while total * (part + 1) // parts <= offset:
            part += 1
        start = 0
        while start < size:
            end = total * (part + 1) // parts - offset
            stop = min(size, end) if _can_be_divided(path, corpus) else size
            piece = Piece(path) if stop - start == size else Piece(path, start, stop)
            found[part].setdefault(split, []).append(piece)
            start, part = stop, part + 1
        offset += size
    return [part for part in found if part]


def _can_be_divided(path: str, corpus: Mapping) -> bool:
    kind, compression = file_format(path)
    if compression or not FORMATS[kind].divisible or corpus["group_per"] == "heading":
        # Headings belong to what follows.
        return False
    return kind != "txt" or corpus["files"]["document_per"] != "file"


def compared_splits(decontamination: Mapping) -> list[str]:
    """The splits among the texts of the section `corpus.filters.decontamination`."""
    return [split for split in ("test", "validation") if split in decontamination["also"]]


def decontamination_settings(settings: Mapping) -> dict | None:
    """Of `used_settings`: the sections `decontamination` by source ("": there is no mix), whose
    texts are known at once, and the section whose splits are compared; None: nothing is."""
    sources = settings.get("mix", {"": settings})
    texts = {name: own["filters"]["decontamination"] for name, own in sources.items()}
    splits = settings["filters"]["decontamination"]
    named = any(own.get(key) for own in texts.values() for key in ("against", "texts", "table"))
    return {"texts": texts, "splits": splits} if named or compared_splits(splits) else None


def filter_files(filters: Mapping) -> list[str]:
    """The paths that `filters` of `corpus_settings` name; MlmError if there is no such file."""
    named = [
        ("language.model", filters["language"]["model"]),
        *(("decontamination.against", path) for path in filters["decontamination"]["against"]),
    ]
    if table := filters["decontamination"].get("table"):
        named.append(("decontamination.also: finetuning (finetune.data.file)", table[0]))
    problems = [
        f"corpus.filters.{key}: {problem}"
        for key, path in named
        if path is not None
        and (
            problem := wrong_with_file(path)
            or not_fetched(path)
            or (key != "language.model" and unknown_format(path))
        )
    ]
    if problems:
        raise MlmError(f"The files of the corpus' filters:\n{listed(problems)}")
    return [path for _, path in named if path is not None]

"""How a large source is divided into parts, each of them read by a job of its own.

Light on purpose: Snakemake imports it to plan, and looks at the sizes of files alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mlm.corpus.file_patterns import file_format

#: Jobs that look for duplicates, each among the digests of a share of the first bytes.
PARTITIONS = 4


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


def undivided(path: str, corpus: Mapping) -> str | None:
    """Why the file `path` is read by one job; None: it can be divided.

    `corpus` is the section of the configuration.
    """
    kind, compression = file_format(path)
    if compression:
        return "is compressed"
    if kind in ("csv", "tsv"):
        return "may have line ends in its fields"
    if corpus["group_per"] == "heading":
        return "has headings that belong to what follows (corpus.group_per)"
    if kind == "txt" and corpus["files"]["document_per"] == "file":
        return "is one document"
    return None


def divided(files: Mapping[str, Sequence[str]], corpus: Mapping, parts: int) -> list[Pieces]:
    """At most `parts` parts of about the same number of bytes, without those that hold nothing.

    The sequence of all bytes of `files` is cut into equal ranges. A file that cannot be divided
    belongs whole to the range in which it begins.
    """
    sizes = [(split, p, Path(p).stat().st_size) for split, paths in files.items() for p in paths]
    total = sum(size for _, _, size in sizes)
    found: list[dict[str, list[Piece]]] = [{} for _ in range(parts)]
    offset = 0
    for split, path, size in sizes:
        part = offset * parts // total
        while total * (part + 1) // parts <= offset:
            part += 1
        whole_file = undivided(path, corpus) is not None
        start = 0
        while start < size:
            stop = size if whole_file else min(size, total * (part + 1) // parts - offset)
            piece = Piece(path) if stop - start == size else Piece(path, start, stop)
            found[part].setdefault(split, []).append(piece)
            start, part = stop, part + 1
        offset += size
    return [part for part in found if part]

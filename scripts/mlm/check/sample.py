"""The text that the check looks at: a small corpus itself, the beginnings of some files of a large
one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mlm.config.fields import SPLITS
from mlm.corpus.decompression import ReadingPosition
from mlm.corpus.embedded import PACKAGE
from mlm.corpus.file_patterns import file_format, matched_files, used_settings
from mlm.foundations.errors import MlmError

#: A corpus of at most so many bytes on disk goes through the stages as it is.
READ_WHOLE = 16_000_000
#: Files of a larger one that are looked into, of each split, and bytes of text read from each.
_FILES, _BEGINNING = 5, 400_000


@dataclass(frozen=True)
class Sample:
    """What `build_corpus` is given, and what it is a sample of.

    `scale` says, by split, how many times larger the whole corpus is; None if that is not known.
    """

    settings: dict
    files: dict[str, list[str]]
    scale: dict[str, float] | None
    source: str

    @property
    def is_all(self) -> bool:
        """Whether it is the whole corpus."""
        return self.scale is not None and set(self.scale.values()) == {1.0}


def sample_of(corpus: dict, seed: int, directory: Path) -> Sample:
    """The sample of section `corpus` of the configuration; cut files are written to `directory`.

    The embedded text stands in for that of the Hub and of a mix, so that the other stages can be
    timed. Raises MlmError if a file is missing or unreadable.
    """
    whole = dict.fromkeys(SPLITS, 1.0)
    if corpus["source"] == "embedded":
        return Sample(used_settings(corpus, seed), {}, whole, f"the addresses of {PACKAGE}")
    if corpus["source"] != "files":
        name = {"hub": f"dataset {corpus['hub']['dataset']} of the Hub", "mix": "mix of sources"}
        settings = used_settings(corpus | {"source": "embedded"}, seed)
        return Sample(settings, {}, None, f"{name[corpus['source']]}, which was not looked at")
    files = matched_files({split: corpus["files"][split] for split in SPLITS})
    on_disk = sum(Path(path).stat().st_size for paths in files.values() for path in paths)
    number = sum(map(len, files.values()))
    source = f"{number:,} file{'s' if number > 1 else ''} of {in_bytes(on_disk)}"
    settings = used_settings(corpus, seed)
    if on_disk <= READ_WHOLE:
        return Sample(settings, files, whole, source)
    # A few files may have too few groups to divide.
    settings |= {"group_by": None, "group_per": None}
    cut: dict[str, list[str]] = {}
    for split, paths in files.items():
        place = directory / split
        place.mkdir(parents=True)
        cut[split], whole[split] = _beginnings(paths, place)
    for split in settings["held_out"]:
        whole[split] = whole["train"]
    return Sample(settings, cut, whole, source)


def _beginnings(paths: Sequence[str], directory: Path) -> tuple[list[str], float]:
    """Copies of the beginnings of some of `paths`, and how many times larger all of them are."""
    made, taken = [], 0.0
    for number, path in enumerate(paths[:: max(1, -(-len(paths) // _FILES))]):
        kind, compression = file_format(path)
        copy = directory / f"{number}.{kind}"
        if kind == "parquet":
            taken += _first_rows(path, copy)
        else:
            taken += _first_lines(path, kind, compression, copy)
        made.append(str(copy))
    return made, sum(Path(path).stat().st_size for path in paths) / taken if taken else 1.0


def _first_rows(path: str, copy: Path) -> float:
    """Bytes of the file `path` that the rows in `copy` take."""
    try:
        with pq.ParquetFile(path) as file:
            rows = next(file.iter_batches(batch_size=1024), None)
            table = pa.Table.from_batches([rows] if rows else [], file.schema_arrow)
            pq.write_table(table, copy)
            return Path(path).stat().st_size * table.num_rows / max(1, file.metadata.num_rows)
    except pa.ArrowException as error:
        raise MlmError(f"{path}: cannot be read as Parquet ({error}). Fetch it again") from None


def _first_lines(path: str, kind: str, compression: str | None, copy: Path) -> float:
    """Bytes of the file `path` that the whole lines in `copy` take."""
    size = Path(path).stat().st_size
    position = ReadingPosition(size)
    with position.opened(path, compression) as stream:
        head = bytearray()
        while len(head) < _BEGINNING and (part := stream.read(1 << 16)):
            head += part
        used = (position.share() or 0.0) * size
    if len(head) < _BEGINNING:
        copy.write_bytes(head)
        return size
    cut = head.rfind(b"\n") + 1
    while kind in ("csv", "tsv") and cut and head.count(b'"', 0, cut) % 2:
        # In a quoted field.
        cut = head.rfind(b"\n", 0, cut - 1) + 1
    copy.write_bytes(head[:cut] if cut else head.rstrip(bytes(range(0x80, 0x100))))
    return used * (cut or len(head)) / len(head)


def in_bytes(size: float) -> str:
    """A size in kB, MB, GB or TB."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size / 1e3:.0f} kB"

"""Where documents come from: one stream for each split that the source has by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    CorpusSource,
    EmbeddedSource,
    FilesSource,
    HubSource,
    Mixed,
    SourceFile,
)
from mlm.corpus.decompression import ReadingPosition
from mlm.corpus.embedded import PACKAGE, SHA256, address_of, paragraphs, speeches_by_split
from mlm.corpus.file_patterns import file_format, matched_files
from mlm.corpus.formats import Reading, read_documents, read_range
from mlm.corpus.groups import OWN, Document, grouped_per
from mlm.corpus.parts import Piece, Pieces, whole
from mlm.foundations.digests import FileMemory

#: Digests of source files that this process has read for one purpose and needs for another.
SOURCE_FILES = FileMemory(None)


@dataclass(frozen=True)
class Source:
    """A corpus before its filters.

    `streams` gives, by split, the documents in order. `described` goes into the split's JSON.
    `group_by` is what the groups are called: address, a column's name, file, heading, or document
    where each document is a group by itself. `carved` are the shares of train that become the
    splits that are not in `streams`. `progress` is the share that was read, from 0 to 1, or None
    where unknown. `mixed` is what a source of a mix is called and weighs.
    """

    streams: dict[str, Callable[[], Iterator[Document]]]
    described: dict[str, CorpusSource]
    group_by: str = OWN
    carved: dict[str, float] = field(default_factory=dict)
    progress: Callable[[], float | None] = lambda: None
    mixed: Mixed | None = None


def open_source(settings: dict, files: Pieces, share: tuple[int, int] = (0, 1)) -> Source:
    """The source that `settings` (of `corpus.files.used_settings`) asks for, or a part of it.

    `files` are what is read of the matched files by split, for the source `files`; for `hub`,
    `share` is the number of the part, and how many there are. Nothing is read yet but what is
    needed to know the splits. Raises MlmError where the source cannot be opened.
    """
    if settings["source"] == "embedded":
        return _embedded(settings)
    if settings["source"] == "files":
        return _from_files(settings, files)
    return _from_hub(settings, share)


def _embedded(settings: dict) -> Source:
    groups = speeches_by_split(settings["seed"], settings["held_out"])

    def stream(texts: dict[str, str]) -> Iterator[Document]:
        for name, speech in texts.items():
            for paragraph in paragraphs(speech):
                yield Document(paragraph, address_of(name))

    return Source(
        streams={split: lambda t=texts: stream(t) for split, texts in groups.items()},
        described={
            split: EmbeddedSource("embedded", PACKAGE, SHA256, tuple(texts))
            for split, texts in groups.items()
        },
        group_by="address",
    )


def _from_files(settings: dict, files: Pieces) -> Source:
    if not any(files.values()):
        # Nothing was found as the workflow started; what, the same search tells in words.
        patterns = {split: settings["files"][split] for split in files}
        files = whole(matched_files(patterns))
    reading = Reading(
        text_column=settings["text_column"],
        errors=settings["encoding_errors"],
        encoding=settings["encoding"],
        document_per=settings["files"]["document_per"],
        quoted_fields=settings["files"]["quoted_fields"],
        group_by=settings["group_by"],
    )
    given = {s: files.get(s, ()) for s in SPLITS if s not in settings["held_out"]}
    position = ReadingPosition(sum(_size(piece) for pieces in given.values() for piece in pieces))
    per, identity = settings["group_per"], cache(_identity)

    def stream(pieces: Sequence[Piece]) -> Iterator[Document]:
        for path, start, stop in pieces:
            kind, compression = file_format(path)
            group = _group_of_file(path, identity(path)) if per else ""
            with position.opened(path, compression, start, stop) as opened:
                if stop is None:
                    documents = read_documents(opened, path, kind, reading)
                else:
                    documents = read_range(opened, path, kind, reading, start, stop)
                yield from grouped_per(documents, per, group)

    # A file is described by the part in which it begins.
    described: dict[str, CorpusSource] = {
        split: FilesSource(
            "files",
            reading.document_per,
            tuple(identity(piece.path) for piece in pieces if piece.start == 0),
        )
        for split, pieces in given.items()
    }
    return Source(
        streams={split: lambda p=pieces: stream(p) for split, pieces in given.items()},
        described=described | _carved_from(described["train"], settings),
        group_by=settings["group_by"] or per or OWN,
        carved=settings["held_out"],
        progress=position.share,
    )


def _size(piece: Piece) -> int:
    return (Path(piece.path).stat().st_size if piece.stop is None else piece.stop) - piece.start


def _from_hub(settings: dict, share: tuple[int, int]) -> Source:
    # Imported here: `datasets` takes 1.7 s, which the other sources need not wait for.
    from mlm.corpus.hub import hub_streams

    hub = settings["hub"]
    reading = Reading(
        text_column=settings["text_column"],
        errors=settings["encoding_errors"],
        group_by=settings["group_by"],
    )
    given = {split: name for split, name in hub["splits"].items() if name}
    streams, progress = hub_streams(hub, given, reading, share)
    per = settings["group_per"]

    def stream(split: str) -> Iterator[Document]:
        return grouped_per(streams[split](), per, split)

    described = {
        split: HubSource("hub", name, hub["dataset"], hub["config"], hub["revision"])
        for split, name in given.items()
    }
    return Source(
        streams={split: lambda s=split: stream(s) for split in streams},
        described=described | _carved_from(described["train"], settings),
        group_by=settings["group_by"] or per or OWN,
        carved=settings["held_out"],
        progress=progress,
    )


def _carved_from(train: CorpusSource, settings: dict) -> dict[str, CorpusSource]:
    """What the splits carved from train say of themselves."""
    return {
        split: replace(train, carved_from="train", share=share, seed=settings["seed"])
        for split, share in settings["held_out"].items()
    }


def _group_of_file(path: str, file: SourceFile) -> str:
    """The file's name; where that is no more than its last part, with its content's digest."""
    return f"{file.path} {file.sha256[:16]}" if Path(path).is_absolute() else file.path


def _identity(path: str) -> SourceFile:
    # Where an absolute path was configured, the directory is this machine's own affair.
    name = Path(path).name if Path(path).is_absolute() else Path(path).as_posix()
    return SourceFile(name, Path(path).stat().st_size, SOURCE_FILES.sha256(path))

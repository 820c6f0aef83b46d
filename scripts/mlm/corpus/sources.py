"""Where documents come from: one stream for each split that the source has by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from mlm.config.corpus import Corpus
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    CorpusSource,
    EmbeddedSource,
    FilesSource,
    HubSource,
    Mixed,
    SourceFile,
)
from mlm.corpus.document_groups import OWN, Document, grouped_per
from mlm.corpus.embedded_corpus import PACKAGE, SHA256, address_of, paragraphs, speeches_by_split
from mlm.corpus.file_patterns import matched_files, recorded_path
from mlm.corpus.formats import documents_of_file
from mlm.corpus.parts import Piece, Pieces, whole
from mlm.foundations.digests import FileMemory

#: Digests of source files that this process has read for one purpose and needs for another.
FILE_DIGESTS = FileMemory(None)
#: What decides how a file, or the rows of a dataset, become documents.
_READ = ("text_column", "group_by", "encoding", "encoding_errors", "files")
_Streams = dict[str, Callable[[], Iterator[Document]]]


@dataclass(frozen=True)
class Source:
    """A corpus before its filters: documents and description by split, what groups are called, and
    the shares of train that become the splits that are not in `streams`."""

    streams: _Streams
    described: dict[str, CorpusSource]
    group_by: str = OWN
    carved: dict[str, float] = field(default_factory=dict)
    mixed: Mixed | None = None


def open_source(settings: dict, files: Pieces, share: tuple[int, int] = (0, 1)) -> Source:
    """The source that `settings` (of `used_settings`) ask for: of `files`, what is read by split;
    of `hub`, `share` is which part of how many."""
    held_out = settings["held_out"]
    if settings["source"] == "embedded":
        return Source(*_embedded(settings["seed"], held_out), group_kind(settings))
    reading = Corpus.of_param({key: settings[key] for key in _READ if key in settings})
    if settings["source"] == "files":
        streams, described = _from_files(settings, reading, files)
    else:
        streams, described = _from_hub(settings, reading, share)
    for split, carved in held_out.items():
        described[split] = replace(
            described["train"], carved_from="train", share=carved, seed=settings["seed"]
        )
    return Source(streams, described, group_kind(settings), held_out)


def group_kind(settings: Mapping) -> str:
    """What the groups of a source are called."""
    if settings["source"] == "embedded":
        return "address"
    return settings["group_by"] or settings["group_per"] or OWN


def _embedded(seed: int, shares: dict) -> tuple[_Streams, dict[str, CorpusSource]]:
    def stream(texts: dict[str, str]) -> Iterator[Document]:
        for name, speech in texts.items():
            for paragraph in paragraphs(speech):
                yield Document(paragraph, address_of(name))

    splits = speeches_by_split(seed, shares)
    return {split: partial(stream, texts) for split, texts in splits.items()}, {
        split: EmbeddedSource("embedded", PACKAGE, SHA256, tuple(texts))
        for split, texts in splits.items()
    }


def _from_files(
    settings: dict, reading: Corpus, files: Pieces
) -> tuple[_Streams, dict[str, CorpusSource]]:
    if not any(files.values()):
        # Nothing was found as the workflow started: the same search says what is missing.
        files = whole(matched_files({split: settings["files"][split] for split in files}))
    given = {s: files.get(s, ()) for s in SPLITS if s not in settings["held_out"]}
    per = settings["group_per"]

    @cache
    def identity(path: str) -> SourceFile:
        size = Path(path).stat().st_size
        return SourceFile(recorded_path(path), size, FILE_DIGESTS.sha256(path))

    def stream(pieces: Sequence[Piece]) -> Iterator[Document]:
        for path, start, stop in pieces:
            group = recorded_path(path)
            if per and Path(path).is_absolute():
                # Several files may be recorded by the same name.
                group += f" {identity(path).sha256[:16]}"
            yield from grouped_per(documents_of_file(path, reading, start, stop), per, group)

    # A file is described by the part in which it begins.
    return {split: partial(stream, pieces) for split, pieces in given.items()}, {
        split: FilesSource(
            "files",
            reading.files.document_per,
            tuple(identity(piece.path) for piece in pieces if piece.start == 0),
        )
        for split, pieces in given.items()
    }


def _from_hub(
    settings: dict, reading: Corpus, share: tuple[int, int]
) -> tuple[_Streams, dict[str, CorpusSource]]:
    # Imported here: `datasets` takes 1.7 s, which the other sources need not wait for.
    from mlm.corpus.hub import hub_streams

    hub, per = settings["hub"], settings["group_per"]
    given = {split: name for split, name in hub["splits"].items() if name}
    streams = hub_streams(hub, given, reading, share)
    return {s: lambda s=s: grouped_per(streams[s](), per, s) for s in streams}, {
        split: HubSource("hub", name, hub["dataset"], hub["config"], hub["revision"])
        for split, name in given.items()
    }

"""Where documents come from: one stream for each split that the source has by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from mlm.config.corpus import UNGROUPED, Corpus, CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    EmbeddedSource,
    FilesSource,
    HubSource,
    Mixed,
    SingleSource,
    SourceFile,
)
from mlm.corpus.document_formats import documents_of_file
from mlm.corpus.embedded_corpus import (
    PACKAGE,
    SHA256,
    address_of,
    paragraphs,
    presidents,
    speeches_by_split,
)
from mlm.corpus.groups_and_splits import Document, grouped_per, groups_of_source
from mlm.corpus.source_files import Part, SplitFiles, recorded_path
from mlm.foundations.digests import file_sha256

_Stream = Callable[[], Iterator[Document]]
#: Streams and descriptions by split.
_Opened = tuple[dict[str, _Stream], dict[str, SingleSource]]


@dataclass(frozen=True)
class Source:
    """Documents and description by split, the kind of groups, and the shares of train that become
    the splits without a stream."""

    streams: dict[str, _Stream]
    described: dict[str, SingleSource]
    group_by: str
    carved: dict[str, float]
    mixed: Mixed | None


def open_source(configuration: CorpusConfiguration, part: Part) -> Source:
    """Open what `part` reads of the corpus."""
    corpora, seed, mixed = configuration.corpus.sources(), configuration.seed, None
    corpus, carved = corpora[part.source], {}
    if corpus.source == "embedded":
        streams, described = _embedded(corpus, seed)
    else:
        is_hub, carved = corpus.source == "hub", corpus.carved
        streams, described = _of_hub(corpus, part) if is_hub else _of_files(corpus, part.files)
        for split, share in carved.items():
            origin = {"carved_from": "train", "share": share, "seed": seed}
            described[split] = replace(described["train"], **origin)
    kinds = {one.group_kind for one in corpora.values()}
    group_by = kinds.pop() if len(kinds) == 1 else "group"
    if part.source:
        mixed = Mixed(part.source, configuration.corpus.mix[part.source].weight, seed)
        if group_by != UNGROUPED:
            alone = streams
            streams = {s: lambda s=s: groups_of_source(alone[s](), part.source) for s in alone}
    return Source(streams, described, group_by, carved, mixed)


def _embedded(corpus: Corpus, seed: int) -> _Opened:
    def stream(texts: dict[str, str]) -> Iterator[Document]:
        for name, speech in texts.items():
            for paragraph in paragraphs(speech):
                yield Document(paragraph, address_of(name))

    splits, of_address = speeches_by_split(seed, corpus.carved), presidents()
    described = {}
    for split, texts in splits.items():
        authors = tuple(of_address[address_of(name)] for name in texts)
        described[split] = EmbeddedSource("embedded", PACKAGE, SHA256, tuple(texts), authors)
    return {split: partial(stream, texts) for split, texts in splits.items()}, described


def _of_files(corpus: Corpus, files: SplitFiles) -> _Opened:
    @cache
    def identity(path: str) -> SourceFile:
        return SourceFile(recorded_path(path), Path(path).stat().st_size, file_sha256(path))

    def stream(paths: Sequence[str]) -> Iterator[Document]:
        for path in paths:
            group = recorded_path(path)
            if corpus.group_per and Path(path).is_absolute():
                # Several files may be recorded by the same name.
                group += f" {identity(path).sha256[:16]}"
            yield from grouped_per(documents_of_file(path, corpus), corpus.group_per, group)

    paths_by_split = {s: files.get(s, ()) for s in SPLITS if s not in corpus.missing_splits}
    return {split: partial(stream, paths) for split, paths in paths_by_split.items()}, {
        split: FilesSource("files", corpus.files.document_per, tuple(map(identity, paths)))
        for split, paths in paths_by_split.items()
    }


def _of_hub(corpus: Corpus, part: Part) -> _Opened:
    # Imported here: `datasets` takes 1.7 s, which the other sources need not wait for.
    from mlm.corpus.hub import hub_streams

    hub, per = corpus.hub, corpus.group_per
    assert hub.dataset, "checked with the configuration"
    names = {split: name for split, name in hub.splits if name}
    streams = hub_streams(corpus, names, part.share, part.shares)
    return {s: lambda s=s: grouped_per(streams[s](), per, s) for s in streams}, {
        split: HubSource("hub", name, hub.dataset, hub.config, hub.revision)
        for split, name in names.items()
    }

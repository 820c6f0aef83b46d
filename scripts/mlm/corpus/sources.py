"""Where documents come from: files, the Hugging Face Hub or the embedded corpus, with one stream
for each split that the source has by itself."""

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlm.config.corpus import UNGROUPED, Corpus, CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import (
    EmbeddedSource,
    FilesSource,
    HubSource,
    Mixed,
    SingleSource,
    SourceFile,
    document_range,
)
from mlm.corpus.document_formats import batch_documents, check_columns, documents_of_file
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
from mlm.foundations.errors import MlmError

if TYPE_CHECKING:
    import datasets

_Stream = Callable[[], Iterator[Document]]
#: Streams and descriptions by split.
_Opened = tuple[dict[str, _Stream], dict[str, SingleSource]]
#: Rows of a dataset that are read together.
_TOGETHER = 128


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
    hub, per = corpus.hub, corpus.group_per
    assert hub.dataset, "checked with the configuration"
    names = {split: name for split, name in hub.splits if name}
    streams = _hub_streams(corpus, names, part.share, part.shares)
    return {s: lambda s=s: grouped_per(streams[s](), per, s) for s in streams}, {
        split: HubSource("hub", name, hub.dataset, hub.config, hub.revision)
        for split, name in names.items()
    }


def _hub_streams(
    corpus: Corpus, splits: dict[str, str], share: int = 0, shares: int = 1
) -> dict[str, Callable[[], Iterator[Document]]]:
    """Open the documents by split, in share `share` of `shares` of all rows; `splits` has the
    dataset's own names. Raises MlmError if the dataset cannot be had at its commit, or lacks a
    split or a column."""
    # Imported here: `datasets` takes 1.7 s, which the other sources need not wait for.
    import datasets
    from datasets.exceptions import DatasetsError

    hub = corpus.hub
    assert hub.dataset and hub.revision, "checked with the configuration"
    named = f"the Hub dataset {hub.dataset} at {hub.revision[:12]}"
    builder = _builder(hub.dataset, hub.config, hub.revision)
    try:
        builder.download_and_prepare()
        available = builder.as_dataset()
        assert isinstance(available, datasets.DatasetDict)
    except (DatasetsError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise MlmError(f"{named} could not be read: {error}{cause}") from error
    total = sum(available[name].num_rows for name in splits.values() if name in available)
    part, streams, first = document_range(total, share, shares), {}, 0
    for split, name in splits.items():
        where = f"{named}, split {name}"
        if name not in available:
            raise MlmError(
                f"corpus.hub.splits.{split}: {named} has no split {name!r}; there are: "
                f"{', '.join(map(repr, available))}. Name one of them, or null to carve "
                f"{split} from train"
            )
        data = available[name]
        check_columns(where, data.column_names, corpus)
        rows = range(max(part.start - first, 0), min(part.stop - first, len(data)))
        streams[split] = partial(_documents, data, rows, where, corpus)
        first += len(data)
    return streams


def _documents(
    split: "datasets.Dataset", rows: range, where: str, corpus: Corpus
) -> Iterator[Document]:
    """Yield the documents of `rows` of a split."""
    start, columns = rows.start, sorted({corpus.text_column, corpus.group_by} - {None})
    chosen = split.select_columns(columns).with_format("arrow").select(rows) if rows else None
    for table in chosen.iter(_TOGETHER) if chosen else ():
        yield from batch_documents(table, where, start, corpus)
        start += len(table)


def _builder(name: str, config: str | None, revision: str) -> "datasets.DatasetBuilder":
    """Return the builder of the dataset at `revision`, from the Hub or the cache of `datasets`.
    By itself, `datasets` takes whatever version was cached last."""
    import datasets
    import huggingface_hub
    from datasets.exceptions import DatasetNotFoundError

    try:
        builder = datasets.load_dataset_builder(name, config, revision=revision)
        if builder.hash == revision:
            return builder
        obstacle = f"the cache holds the commit {builder.hash} only"
    except (DatasetNotFoundError, ValueError, OSError) as error:  # OSError: no network
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS):
            raise
        obstacle = str(error).strip()
    arguments = ", ".join(map(repr, (name, config) if config else (name,)))
    raise MlmError(
        f"The Hub dataset {name} at the commit {revision} is needed, but neither the Hub nor a "
        f"cache gave it: {obstacle}.\nCheck dataset, config and revision; a private or gated "
        "dataset needs a token in the environment variable HF_TOKEN. Without a network, here or "
        f"elsewhere with HF_HOME copied to {huggingface_hub.constants.HF_HOME}:\n"
        f'  python -c "import datasets; datasets.load_dataset({arguments}, '
        f"revision='{revision}')\"\n"
        "Then run the same command here, with HF_HUB_OFFLINE=1"
    )

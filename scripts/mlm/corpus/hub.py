"""A dataset of the Hugging Face Hub at one pinned commit, from the network or from a cache.

Offline, `datasets` takes whatever version was cached last; here it must be the pinned commit.
"""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import datasets
import huggingface_hub
import pyarrow as pa

from mlm.config.corpus import Corpus
from mlm.corpus.document_groups import Document
from mlm.corpus.formats import batch_documents, check_column_type, check_columns
from mlm.corpus.shares import document_range
from mlm.foundations.errors import MlmError


def hub_streams(
    hub: dict, splits: dict[str, str], reading: Corpus, share: tuple[int, int] = (0, 1)
) -> dict[str, Callable[[], Iterator[Document]]]:
    """The documents by split: `splits` gives the dataset's own names, `share` which part of how
    many of all rows is read.

    Raises MlmError if the dataset cannot be had at its commit, or lacks a configuration, split or
    column.
    """
    builder = _builder(hub["dataset"], hub["config"], hub["revision"])
    try:
        builder.download_and_prepare()
        available = builder.as_dataset()
    except (datasets.exceptions.DatasetsError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise MlmError(f"{_named(hub)} could not be read: {error}{cause}") from error
    for split, name in splits.items():
        if name not in available:
            raise MlmError(
                f"corpus.hub.splits.{split}: {_named(hub)} has no split {name!r}; there are: "
                f"{', '.join(map(repr, available))}. Name one of them, or null to carve "
                f"{split} from train"
            )
        where, schema = f"{_named(hub)}, split {name}", available[name].data.schema
        check_columns(where, schema.names, reading)
        check_column_type(schema.field(reading.text_column).type, where, reading)
    part = document_range(sum(available[name].num_rows for name in splits.values()), *share)
    wanted, before = {}, 0
    for name in splits.values():
        rows = available[name].num_rows
        wanted[name] = range(max(part.start - before, 0), min(part.stop - before, rows))
        before += rows

    def stream(name: str) -> Iterator[Document]:
        row, where = 0, f"{_named(hub)}, split {name}"
        for batch in _batches(available[name]) if wanted[name] else ():
            first = max(wanted[name].start - row, 0)
            own = batch.slice(first, max(wanted[name].stop - row - first, 0))
            yield from batch_documents(own, where, row + first, reading)
            row += len(batch)
            if row >= wanted[name].stop < available[name].num_rows:
                return
        if wanted[name] and row != available[name].num_rows:
            raise MlmError(
                f"{where}: {row:,} rows in the cache, {available[name].num_rows:,} expected. "
                f"Remove {available[name].cache_files[0]['filename']} and its neighbours, and "
                "run again"
            )

    return {split: lambda n=name: stream(n) for split, name in splits.items()}


def _batches(split: datasets.Dataset) -> Iterator[pa.RecordBatch]:
    """A split in batches, read from its cache files one after the other."""
    # Not through the library: it maps the files, and all of them would count as memory.
    for file in split.cache_files:
        with pa.OSFile(file["filename"]) as handle, pa.ipc.open_stream(handle) as reader:
            yield from reader


def _named(hub: dict) -> str:
    config = f" ({hub['config']})" if hub["config"] else ""
    return f"the Hub dataset {hub['dataset']}{config} at {hub['revision'][:12]}"


def _builder(name: str, config: str | None, revision: str) -> datasets.DatasetBuilder:
    """The builder of the dataset at `revision`: from the Hub, or from the cache of `datasets`."""
    if Path(name).is_dir():
        raise MlmError(
            f"corpus.hub.dataset: {name!r} is a directory here, and would be read instead of "
            "the Hub's dataset. Set corpus.source to files to read it, or work elsewhere"
        )
    try:
        builder = datasets.load_dataset_builder(name, config, revision=revision)
        if builder.hash == revision:
            return builder
        obstacle = f"the cache holds the commit {builder.hash} only"
    except datasets.exceptions.DatasetNotFoundError as error:
        raise MlmError(
            f"corpus.hub: {error} Check corpus.hub.dataset and corpus.hub.revision; a private "
            "or gated dataset needs a token in the environment variable HF_TOKEN"
        ) from None
    except OSError as error:  # what requests, huggingface_hub and datasets raise for no network
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        obstacle = str(error).strip()
    except ValueError as error:
        if "cache" not in str(error):
            raise MlmError(f"corpus.hub.config: {error}") from None
        obstacle = str(error)
    arguments = ", ".join(map(repr, (name, config) if config else (name,)))
    raise MlmError(
        f"The Hub dataset {name} at the commit {revision} is needed, but neither the Hub "
        f"({datasets.config.HF_ENDPOINT}) nor a cache gave it: {obstacle}.\n"
        "With a network, on this machine or on another one whose HF_HOME is then copied to "
        f"{huggingface_hub.constants.HF_HOME} here:\n"
        f'  python -c "import datasets; datasets.load_dataset({arguments}, '
        f"revision='{revision}')\"\n"
        "Then run the same command here, with HF_HUB_OFFLINE=1 to save waiting. Or set "
        "corpus.source to files and name files of your own"
    )

"""A dataset of the Hugging Face Hub at one pinned commit, from the network or from a cache, where
`datasets` by itself takes whatever version was cached last."""

import errno
from collections.abc import Callable, Iterator
from functools import partial

import datasets
import huggingface_hub
from datasets.exceptions import DatasetNotFoundError, DatasetsError

from mlm.config.corpus import Corpus
from mlm.corpus.artefacts import document_range
from mlm.corpus.document_formats import batch_documents, check_columns
from mlm.corpus.groups_and_splits import Document
from mlm.foundations.errors import MlmError

#: Rows that are read together.
_TOGETHER = 128


def hub_streams(
    corpus: Corpus, splits: dict[str, str], share: int = 0, shares: int = 1
) -> dict[str, Callable[[], Iterator[Document]]]:
    """Open the documents by split, in share `share` of `shares` of all rows; `splits` has the
    dataset's own names. Raises MlmError if the dataset cannot be had at its commit, or lacks a
    split or a column."""
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
    split: datasets.Dataset, rows: range, where: str, corpus: Corpus
) -> Iterator[Document]:
    """Yield the documents of `rows` of a split."""
    start, columns = rows.start, sorted({corpus.text_column, corpus.group_by} - {None})
    chosen = split.select_columns(columns).with_format("arrow").select(rows) if rows else None
    for table in chosen.iter(_TOGETHER) if chosen else ():
        yield from batch_documents(table, where, start, corpus)
        start += len(table)


def _builder(name: str, config: str | None, revision: str) -> datasets.DatasetBuilder:
    """Return the builder of the dataset at `revision`, from the Hub or the cache of `datasets`."""
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

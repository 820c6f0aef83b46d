"""What a shard's job says of its shard: the sidecar file beside it."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from mlm.corpus.groups import OWN
from mlm.foundations.errors import MlmError, reading
from mlm.results.typed_artefacts import Artefact


@dataclass(frozen=True)
class ShardSummary(Artefact):
    """What a shard's sidecar file says.

    `tokens_in` was counted as the tokens left the tokenizer, `num_tokens` as samples were
    written; `first_document` and `documents` give the range that the shard was made from.
    """

    split: str
    shard: int
    shards: int
    first_document: int
    documents: int
    corpus_documents: int
    sequence_length: int
    compression: str
    tokens_in: int
    num_samples: int
    num_tokens: int
    num_padding: int
    num_bytes: int
    sha256: str
    block_offsets: tuple[int, ...]
    special_literals: int
    tokenizer_sha256: str


def number_of_documents(corpus: Path) -> int:
    """The rows of the corpus file. Raises MlmError where it is not one."""
    with reading(corpus, "parquet"), pq.ParquetFile(corpus) as file:
        _check_columns(corpus, file)
        return file.metadata.num_rows


def grouping_of(corpus: Path) -> str:
    """What the groups of the documents in the corpus file are called."""
    with reading(corpus, "parquet"), pq.ParquetFile(corpus) as file:
        _check_columns(corpus, file)
        return (file.metadata.metadata or {}).get(b"group_by", OWN.encode()).decode("utf-8")


def _check_columns(corpus: Path, file: pq.ParquetFile) -> None:
    missing = [name for name in ("text", "group") if name not in file.schema_arrow.names]
    if missing:
        raise MlmError(
            f"{corpus}: no column {missing[0]!r} in {file.schema_arrow.names}. Delete it and run "
            "again, so that it is remade"
        )

"""What a shard's job says of its shard: the sidecar file beside it."""

from dataclasses import dataclass

from mlm.foundations.typed_artefacts import Artefact


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

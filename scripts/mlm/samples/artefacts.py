"""The artefacts of the samples: summaries of shards, a run's masks."""

from dataclasses import dataclass

from mlm.foundations.typed_artefacts import Artefact

#: What the writer of a shard measures, for its summary and the manifest.
MEASURED = ("num_samples", "num_tokens", "num_padding", "num_bytes", "sha256", "block_offsets")


@dataclass(frozen=True)
class ShardSummary(Artefact):
    """The file beside a shard: `tokens_in` left the tokenizer, `num_tokens` were written."""

    split: str
    shard: int
    shards: int
    first_document: int
    documents: int
    corpus_documents: int
    sequence_length: int
    tokens_in: int
    num_samples: int
    num_tokens: int
    num_padding: int
    num_bytes: int
    sha256: str
    block_offsets: tuple[int, ...]
    special_literals: int
    tokenizer_sha256: str


@dataclass(frozen=True)
class PreviewToken:
    """A token's text; `masked` is what the model sees in its place, None if it is not chosen."""

    text: str
    masked: str | None


@dataclass(frozen=True)
class PreviewSample:
    """Sample `index` of the split, plain and masked; number `turn`, from 1, of the first epoch."""

    index: int
    turn: int
    text: str
    masked: str
    tokens: tuple[PreviewToken, ...]


@dataclass(frozen=True)
class Preview(Artefact):
    """results/runs/{run}/preview.json: train samples as the run's training first sees them."""

    run: str
    samples: list[PreviewSample]

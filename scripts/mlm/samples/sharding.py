"""Shards of a split, each of its own range of documents."""

import os
from pathlib import Path

from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import document_range
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.samples.artefacts import MEASURED, ShardSummary
from mlm.samples.packing import write_packed
from mlm.samples.tfrecord import SampleWriter
from mlm.tokenizer.encoding import Encoder


def write_shard(
    split: str,
    number: int,
    shards: int,
    section: Shards,
    encoder: Encoder,
    tokenizer_json: str | os.PathLike,
    corpus: SplitDocuments,
    shard_file: str | os.PathLike,
) -> ShardSummary:
    """Write shard `number` of `shards` and its summary beside it (.json). Raises MlmError if there
    are fewer documents than shards."""
    if len(corpus) < shards:
        raise MlmError(
            f"{corpus.named}: {len(corpus)} documents cannot fill {shards} shards. Set "
            f"shards.count.{split} to at most {len(corpus)}."
        )
    documents = document_range(len(corpus), number, shards)
    progress = Progress("packing", len(documents), "documents")
    with replacing(shard_file) as temporary, SampleWriter(temporary) as writer:
        tokens_in, literals = write_packed(section, encoder, corpus, documents, writer, progress.to)
    summary = ShardSummary(
        split=split,
        shard=number,
        shards=shards,
        first_document=documents.start,
        documents=len(documents),
        corpus_documents=len(corpus),
        sequence_length=section.sequence_length,
        tokens_in=tokens_in,
        **{name: getattr(writer, name) for name in MEASURED},
        special_literals=literals,
        tokenizer_sha256=file_sha256(tokenizer_json),
    )
    summary.write(Path(shard_file).with_suffix(".json"))
    return summary

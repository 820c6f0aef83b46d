"""Making one shard: its own contiguous range of the documents, tokenised, packed, written."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.corpus.groups import group_ids
from mlm.corpus.shares import document_range
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.samples.packing import GroupPacker, Packer
from mlm.samples.summaries import ShardSummary
from mlm.samples.tfrecord import SampleWriter
from mlm.tokenizer.encoding import Encoder

#: Characters handed to the tokenizer at a time: with `read_batch`, what bounds the memory
#: where documents are long.
_CHARACTERS_AT_A_TIME = 2_000_000


@dataclass(frozen=True)
class ShardSettings:
    """Which shard of which split, and how its samples look."""

    split: str
    shard: int
    shards: int
    sequence_length: int
    compression: str
    read_batch: int


def check_enough_documents(corpus: SplitDocuments, split: str, shards: int) -> None:
    """Raise MlmError where there are fewer documents than shards to make from them."""
    documents = len(corpus)
    if documents == 0:
        raise MlmError(
            f"{corpus.named}: the {split} split holds no document, so no shard can be made. See "
            f"the counts in results/corpus/{split}.json; loosen corpus.filters, or give {split} "
            "more text."
        )
    if documents < shards:
        raise MlmError(
            f"{corpus.named}: {documents} documents cannot fill {shards} shards. Set "
            f"shards.count.{split} to at most {documents}."
        )


def read_documents(
    corpus: SplitDocuments, documents: range, batch: int
) -> Iterator[tuple[list[str], np.ndarray]]:
    """`documents` of a split in order, at most `batch` at a time: their texts, and the ids of their
    groups, int64 [documents].

    Only row groups that hold them are read, and of these a batch at a time.
    """
    for rows in corpus.batches(["text", "group"], batch, documents):
        yield rows.column("text").to_pylist(), group_ids(rows.column("group"))


def _portions(texts: list[str]) -> Iterator[list[str]]:
    """`texts` in runs of about `_CHARACTERS_AT_A_TIME` characters."""
    portion, characters = [], 0
    for text in texts:
        portion.append(text)
        characters += len(text)
        if characters >= _CHARACTERS_AT_A_TIME:
            yield portion
            portion, characters = [], 0
    if portion:
        yield portion


def check_padding_id(tokenizer: Encoder, tokenizer_json: Path) -> None:
    """Raise MlmError where the padding token has no id of its own within the vocabulary."""
    ids, size = tokenizer.special_ids, tokenizer.vocabulary_size
    others = {name: getattr(ids, name) for name in ("cls", "sep", "unk", "mask")}
    same = [name for name, value in others.items() if value == ids.pad]
    if not 0 <= ids.pad < size or same:
        raise MlmError(
            f"{tokenizer_json}: the padding token's id is {ids.pad}, in a vocabulary of {size} "
            f"ids{', and also that of ' + ', '.join(same) if same else ''}; it needs an id of "
            "its own"
        )


def write_shard(
    settings: ShardSettings,
    tokenizer: Encoder,
    corpus: SplitDocuments,
    tokenizer_json: str | os.PathLike,
    shard_file: str | os.PathLike,
    summary_file: str | os.PathLike,
) -> ShardSummary:
    """Write one shard and, after it, its sidecar; the bytes depend on no thread count.

    Memory is bounded by `settings.read_batch` documents. Raises MlmError where there are
    fewer documents than shards, and RuntimeError where a token was lost on the way.
    """
    tokenizer_json = Path(tokenizer_json)
    check_padding_id(tokenizer, tokenizer_json)
    check_enough_documents(corpus, settings.split, settings.shards)
    documents = document_range(len(corpus), settings.shard, settings.shards)
    with replacing(shard_file) as temporary:
        with SampleWriter(temporary, settings.compression) as writer:
            tokens_in, literals = _write_documents(settings, tokenizer, corpus, documents, writer)
        if writer.num_tokens != tokens_in:
            raise RuntimeError(f"{tokens_in} tokens came in, {writer.num_tokens} were written")
    summary = ShardSummary(
        split=settings.split,
        shard=settings.shard,
        shards=settings.shards,
        first_document=documents.start,
        documents=len(documents),
        corpus_documents=len(corpus),
        sequence_length=settings.sequence_length,
        compression=settings.compression,
        tokens_in=tokens_in,
        num_samples=writer.num_samples,
        num_tokens=writer.num_tokens,
        num_padding=writer.num_padding,
        num_bytes=writer.num_bytes,
        sha256=writer.sha256,
        block_offsets=writer.block_offsets,
        special_literals=literals,
        tokenizer_sha256=file_sha256(tokenizer_json),
    )
    summary.write(summary_file)
    return summary


def _write_documents(
    settings: ShardSettings,
    tokenizer: Encoder,
    corpus: SplitDocuments,
    documents: range,
    writer: SampleWriter,
) -> tuple[int, int]:
    """Tokenise, pack and write `documents`: the tokens that came in, and special literals."""
    packer = Packer(settings.sequence_length, tokenizer.special_ids.pad)
    group_packer = GroupPacker(settings.sequence_length)
    name = f"{settings.split} shard {settings.shard} of {settings.shards}"
    progress = Progress(name, len(documents), "documents")
    done = tokens_in = literals = 0
    for texts, groups in read_documents(corpus, documents, settings.read_batch):
        start = 0
        for portion in _portions(texts):
            literals += tokenizer.count_special_literals(portion)
            encoded = tokenizer.encode(portion)
            lengths = np.fromiter(map(len, encoded), np.int64)
            tokens_in += int(lengths.sum())
            samples = packer.add(np.fromiter(itertools.chain.from_iterable(encoded), np.int32))
            spans = group_packer.add(groups[start : start + len(portion)], lengths)
            writer.write(samples, np.full(len(samples), settings.sequence_length), spans)
            start += len(portion)
            progress.to(done + start)
        done += start
    last, tokens = packer.finish()
    writer.write(last, np.full(len(last), tokens), group_packer.finish())
    return tokens_in, literals

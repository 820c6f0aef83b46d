"""Making one shard: its own contiguous range of the documents, tokenised, packed, written."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mlm.corpus.groups import group_ids
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, reading
from mlm.foundations.progress_line import Progress
from mlm.shards.packing import GroupPacker, Packer
from mlm.shards.summaries import ShardSummary, number_of_documents
from mlm.shards.tfrecord import SampleWriter
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


def document_range(documents: int, shard: int, shards: int) -> range:
    """The documents of shard `shard` of `shards`: contiguous, sizes differing by one at most."""
    return range(documents * shard // shards, documents * (shard + 1) // shards)


def check_enough_documents(documents: int, split: str, shards: int, corpus: Path) -> None:
    """Raise MlmError where there are fewer documents than shards to make from them."""
    if documents == 0:
        raise MlmError(
            f"{corpus}: the {split} split holds no document, so no shard can be made. See the "
            f"counts in {corpus.with_suffix('.json')}; loosen corpus.filters, or give "
            f"{split} more text."
        )
    if documents < shards:
        raise MlmError(
            f"{corpus}: {documents} documents cannot fill {shards} shards. Set "
            f"shards.count.{split} to at most {documents}."
        )


def read_documents(
    corpus: Path, documents: range, batch: int
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Rows `documents` of a parquet file in order, at most `batch` at a time: their texts, and
    the ids of their groups, int64 [rows].

    Only row groups that hold them are read, and of these a batch at a time.
    """
    with (
        reading(corpus, "parquet"),
        pq.ParquetFile(corpus, page_checksum_verification=True) as file,
    ):
        start = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            first, last = max(documents.start - start, 0), min(documents.stop - start, size)
            if first < last:
                yield from _rows_of_group(file, group, range(first, last), batch)
            start += size


def _rows_of_group(
    file: pq.ParquetFile, group: int, wanted: range, batch: int
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Texts and group ids of rows `wanted` of one row group.

    Groups are read one by one because pyarrow holds the buffers of all groups of a call until
    its end.
    """
    row = 0
    for rows in file.iter_batches(batch, row_groups=[group], columns=["text", "group"]):
        first, last = max(wanted.start - row, 0), min(wanted.stop - row, len(rows))
        if first < last:
            chosen = rows.slice(first, last - first)
            yield chosen.column("text").to_pylist(), group_ids(chosen.column("group"))
        row += len(rows)


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
    corpus: str | os.PathLike,
    tokenizer_json: str | os.PathLike,
    shard_file: str | os.PathLike,
    summary_file: str | os.PathLike,
) -> ShardSummary:
    """Write one shard and, after it, its sidecar; the bytes depend on no thread count.

    Memory is bounded by `settings.read_batch` documents. Raises MlmError where there are
    fewer documents than shards, and RuntimeError where a token was lost on the way.
    """
    corpus, tokenizer_json = Path(corpus), Path(tokenizer_json)
    check_padding_id(tokenizer, tokenizer_json)
    total = number_of_documents(corpus)
    check_enough_documents(total, settings.split, settings.shards, corpus)
    documents = document_range(total, settings.shard, settings.shards)
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
        corpus_documents=total,
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
    corpus: Path,
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

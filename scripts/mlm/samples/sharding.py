"""Documents packed into samples of equal length, across their ends: RoBERTa's FULL-SENTENCES
without the limit of a document (Liu et al., 2019, section 4.2); and their manifest."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit, document_range
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.groups_and_splits import group_ids
from mlm.foundations.artefacts import portable
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import Progress
from mlm.samples.manifests import Manifest
from mlm.samples.tfrecord import NO_GROUP, SampleWriter
from mlm.tokenizer.encoding import Encoder

#: Documents read, and characters tokenised, at a time: they bound the memory.
DOCUMENTS_AT_A_TIME, _CHARACTERS_AT_A_TIME = 1000, 2_000_000


def write_shard(
    shard_file: str | os.PathLike,
    share: tuple[int, int],
    record: str | os.PathLike,
    section: Shards,
    encoder: Encoder,
    tokenizer_json: str | os.PathLike,
) -> Manifest:
    """Write shard number `share[0]` of `share[1]` of the split that `record` describes, and its
    manifest beside it (.json). Raises MlmError if there are fewer documents than shards."""
    corpus, texts = CorpusSplit.read(record), SplitDocuments.described(record)
    if len(texts) < share[1]:
        raise MlmError(
            f"{texts.named}: {len(texts)} documents cannot fill {share[1]} shards. Set "
            f"shards.count.{corpus.split} to at most {len(texts)}."
        )
    documents = document_range(len(texts), *share)
    length = section.sequence_length
    with replacing(shard_file) as temporary:
        with SampleWriter(temporary) as writer:
            literals = _write_packed(length, encoder, texts, documents, writer)
        shard = writer.shard(portable(shard_file))
    manifest = Manifest.of(
        [shard],
        split=corpus.split,
        sequence_length=length,
        tokenizer_sha256=file_sha256(tokenizer_json),
        corpus_sha256=corpus.sha256,
        documents=len(documents),
        special_literals=literals,
        group_by=corpus.group_by,
    )
    manifest.write(Path(shard_file).with_suffix(".json"))
    return manifest


def merged_manifest(parts: Sequence[Manifest], corpus: CorpusSplit) -> Manifest:
    """Return the manifest of a split from those of its shards, in order. Raises MlmError if they
    were not made alike, or if documents of `corpus` are missing."""
    common = {"split": corpus.split, "corpus_sha256": corpus.sha256, "group_by": corpus.group_by}
    common |= {name: getattr(parts[0], name) for name in ("sequence_length", "tokenizer_sha256")}
    problems = [
        f"{part.shards[0].path}: {name} is {getattr(part, name)}; {value} is expected"
        for part in parts
        for name, value in common.items()
        if getattr(part, name) != value
    ]
    documents = sum(part.documents for part in parts)
    if documents != corpus.documents:
        problems.append(f"the shards hold {documents} of the corpus's {corpus.documents} documents")
    if problems:
        raise MlmError(
            f"The {corpus.split} shards do not belong together:\n{listed(problems)}\n"
            f"Delete results/shards/{corpus.split} and run again."
        )
    literals = sum(part.special_literals for part in parts)
    shards = (shard for part in parts for shard in part.shards)
    return Manifest.of(shards, documents=documents, special_literals=literals, **common)


def _write_packed(
    length: int, encoder: Encoder, texts: SplitDocuments, documents: range, writer: SampleWriter
) -> int:
    """Write `documents` in samples of `length` tokens, the last padded; return how many special
    tokens the text spells."""
    progress = Progress("packing", len(documents), "documents")
    done, literals = 0, 0
    # Tokens, and their groups, that do not fill a sample yet.
    waiting = [np.empty(0, np.int32), np.empty(0, np.int64)]
    for rows in texts.batches(["text", "group"], DOCUMENTS_AT_A_TIME, documents):
        batch, groups = rows.column("text").to_pylist(), group_ids(rows.column("group"))
        # Runs of texts of about so many characters.
        ends = np.cumsum(list(map(len, batch))) // _CHARACTERS_AT_A_TIME
        for run in np.split(np.arange(len(batch)), np.flatnonzero(np.diff(ends)) + 1):
            portion = batch[run[0] : run[-1] + 1]
            literals += encoder.count_special_literals(portion)
            encoded = encoder.encode(portion)
            tokens = np.fromiter(itertools.chain.from_iterable(encoded), np.int32)
            token_groups = np.repeat(groups[run], list(map(len, encoded)))
            streams = zip(waiting, (tokens, token_groups), strict=True)
            waiting = [np.append(*stream) for stream in streams]
            full = len(waiting[0]) // length * length
            ids, sample_groups = (stream[:full].reshape(-1, length) for stream in waiting)
            writer.write(ids, np.full(len(ids), length), sample_groups)
            waiting = [stream[full:] for stream in waiting]
            done += len(portion)
            progress.to(done)
    if left := len(waiting[0]):
        missing, (ids, sample_groups) = (0, length - left), waiting
        ids = np.pad(ids, missing, constant_values=encoder.special_ids.pad)
        sample_groups = np.pad(sample_groups, missing, constant_values=NO_GROUP)
        writer.write(ids[None], np.array([left]), sample_groups[None])
    return literals

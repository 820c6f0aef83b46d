"""Shards of a split, each of its own range of documents, and their manifest."""

import os
from pathlib import Path

from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.equal_shares import document_range
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.progress_line import Progress
from mlm.samples.artefacts import ShardSummary
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.packing import write_packed
from mlm.samples.tfrecord import SampleWriter
from mlm.tokenizer.encoding import Encoder

#: What a writer measures of its shard.
_MEASURED = ("num_samples", "num_tokens", "num_padding", "num_bytes", "sha256", "block_offsets")


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
    _check(encoder, tokenizer_json, corpus, split, shards)
    documents = document_range(len(corpus), number, shards)
    progress = Progress(f"{split} shard {number} of {shards}", len(documents), "documents")
    with replacing(shard_file) as temporary, SampleWriter(temporary) as writer:
        tokens_in, literals = write_packed(section, encoder, corpus, documents, writer, progress)
    summary = ShardSummary(
        split=split,
        shard=number,
        shards=shards,
        first_document=documents.start,
        documents=len(documents),
        corpus_documents=len(corpus),
        sequence_length=section.sequence_length,
        tokens_in=tokens_in,
        **{name: getattr(writer, name) for name in _MEASURED},
        special_literals=literals,
        tokenizer_sha256=file_sha256(tokenizer_json),
    )
    summary.write(Path(shard_file).with_suffix(".json"))
    return summary


def _check(
    encoder: Encoder, tokenizer: str | os.PathLike, corpus: SplitDocuments, split: str, shards: int
) -> None:
    ids, size = encoder.special_ids, encoder.vocabulary_size
    same = [n for n in ("cls", "sep", "unk", "mask") if getattr(ids, n) == ids.pad]
    if not 0 <= ids.pad < size or same:
        raise MlmError(
            f"{tokenizer}: the padding token's id is {ids.pad}, in a vocabulary of {size} "
            f"ids{', and also that of ' + ', '.join(same) if same else ''}; it needs an id of "
            "its own"
        )
    if (documents := len(corpus)) < shards:
        raise MlmError(
            f"{corpus.named}: {documents} documents cannot fill {shards} shards. Set "
            f"shards.count.{split} to at most {documents}."
        )


def merged_manifest(
    split: str,
    summaries: list[tuple[str, ShardSummary]],
    corpus: CorpusSplit,
    tokenizer_json: str | os.PathLike,
    root: str | os.PathLike = ".",
) -> Manifest:
    """The manifest of `split` from its shards' paths, relative to `root`, and summaries, in order.
    Raises MlmError for documents left out or used twice, lost tokens, another size."""
    _check_belonging(summaries, corpus.documents, Path(root))
    entries = tuple(
        ShardEntry(
            name=Path(path).name,
            path=path,
            **{name: getattr(s, name) for name in _MEASURED},
        )
        for path, s in summaries
    )
    first = summaries[0][1]
    return Manifest(
        split=split,
        sequence_length=first.sequence_length,
        tokenizer_sha256=file_sha256(tokenizer_json),
        corpus_sha256=corpus.sha256,
        documents=corpus.documents,
        special_literals=sum(s.special_literals for _, s in summaries),
        **totals(entries),
        shards=entries,
        group_by=corpus.group_by,
    )


def _check_belonging(summaries: list[tuple[str, ShardSummary]], documents: int, root: Path) -> None:
    next_document, problems = 0, []
    for path, s in summaries:
        expected = {
            "first_document": next_document,
            "num_tokens": s.tokens_in,
            "num_padding": s.num_samples * s.sequence_length - s.tokens_in,
            "num_bytes": (root / path).stat().st_size,
        }
        problems += [
            f"{path}: {key} is {getattr(s, key)}; {value} is expected"
            for key, value in expected.items()
            if getattr(s, key) != value
        ]
        next_document += s.documents
    if next_document != documents:
        problems.append(f"the shards hold {next_document} of the corpus's {documents} documents")
    if problems:
        split = summaries[0][1].split
        raise MlmError(
            f"The {split} shards do not belong together:\n{listed(problems)}\n"
            f"Delete results/shards/{split} and run again."
        )

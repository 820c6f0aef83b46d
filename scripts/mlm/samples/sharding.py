"""Making the shards of a split, each of its own contiguous range of documents, and its manifest.

Documents are packed: tokens one after the other, cut into samples of a fixed length (RoBERTa's
FULL-SENTENCES without the limit of a document; Liu et al., 2019, section 4.2).
"""

import itertools
import os
from pathlib import Path

import numpy as np

from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.document_groups import group_ids
from mlm.corpus.shares import document_range
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.progress_line import Progress
from mlm.samples.artefacts import ShardSummary
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.tfrecord import NO_GROUP, SampleWriter
from mlm.tokenizer.encoding import Encoder

#: Characters given to the tokenizer at a time: with `read_batch`, this bounds the memory if
#: documents are long.
_CHARACTERS_AT_A_TIME = 2_000_000
#: What a writer measures of its shard.
_MEASURED = ("num_samples", "num_tokens", "num_padding", "num_bytes", "sha256", "block_offsets")


class Packer:
    """Cuts a stream of tokens, and of the groups that they belong to, into rows of
    `sequence_length`; the rest waits for more."""

    def __init__(self, sequence_length: int, pad_id: int):
        self.sequence_length, self.pad_id = sequence_length, pad_id
        self._tokens, self._groups = np.zeros(0, np.int32), np.zeros(0, np.int64)

    def add(self, tokens: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The samples [n, sequence_length] that `tokens` [m] int32 complete, and the groups of
        their tokens, of `groups` [m] int64."""
        rows = []
        for name, new in (("_tokens", tokens), ("_groups", groups)):
            stream = np.concatenate((getattr(self, name), new))
            full = len(stream) // self.sequence_length * self.sequence_length
            setattr(self, name, stream[full:].copy())
            rows.append(stream[:full].reshape(-1, self.sequence_length))
        return rows[0], rows[1]

    def finish(self) -> tuple[np.ndarray, np.ndarray, int]:
        """The last sample, padded, [1, sequence_length] ([0, sequence_length] if no token waits),
        its groups, and its number of tokens."""
        waiting = len(self._tokens)
        missing = -waiting % self.sequence_length
        tokens, groups = self.add(
            np.full(missing, self.pad_id, np.int32), np.full(missing, NO_GROUP, np.int64)
        )
        return tokens, groups, waiting


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
    """Write shard `number` of `shards` and, after it, its summary beside it (.json); the bytes
    depend on no thread count.

    Raises MlmError if there are fewer documents than shards, RuntimeError if a token was lost.
    """
    _check(encoder, tokenizer_json, corpus, split, shards)
    documents = document_range(len(corpus), number, shards)
    name = f"{split} shard {number} of {shards}"
    with replacing(shard_file) as temporary:
        with SampleWriter(temporary) as writer:
            tokens_in, literals = _write_documents(
                name, section, encoder, corpus, documents, writer
            )
        if writer.num_tokens != tokens_in:
            raise RuntimeError(f"{tokens_in} tokens came in, {writer.num_tokens} were written")
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
    ids, size, documents = encoder.special_ids, encoder.vocabulary_size, len(corpus)
    same = [n for n in ("cls", "sep", "unk", "mask") if getattr(ids, n) == ids.pad]
    if not 0 <= ids.pad < size or same:
        raise MlmError(
            f"{tokenizer}: the padding token's id is {ids.pad}, in a vocabulary of {size} "
            f"ids{', and also that of ' + ', '.join(same) if same else ''}; it needs an id of "
            "its own"
        )
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


def _write_documents(
    name: str,
    section: Shards,
    encoder: Encoder,
    corpus: SplitDocuments,
    documents: range,
    writer: SampleWriter,
) -> tuple[int, int]:
    """Tokenise, pack and write `documents`: the tokens that came in, and special literals."""
    packer = Packer(section.sequence_length, encoder.special_ids.pad)
    progress = Progress(name, len(documents), "documents")
    done = tokens_in = literals = 0
    for rows in corpus.batches(["text", "group"], section.read_batch, documents):
        texts, groups = rows.column("text").to_pylist(), group_ids(rows.column("group"))
        # Runs of texts of about so many characters.
        ends = np.cumsum(list(map(len, texts))) // _CHARACTERS_AT_A_TIME
        for part in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(ends)) + 1):
            portion = texts[part[0] : part[-1] + 1]
            literals += encoder.count_special_literals(portion)
            encoded = encoder.encode(portion)
            tokens = np.fromiter(itertools.chain.from_iterable(encoded), np.int32)
            of_tokens = np.repeat(groups[part], list(map(len, encoded)))
            samples, of_samples = packer.add(tokens, of_tokens)
            writer.write(samples, np.full(len(samples), section.sequence_length), of_samples)
            tokens_in += len(tokens)
            done += len(portion)
            progress.to(done)
    last, of_last, tokens = packer.finish()
    writer.write(last, np.full(len(last), tokens), of_last)
    return tokens_in, literals


def merged_manifest(
    split: str,
    summaries: list[tuple[str, ShardSummary]],
    corpus: CorpusSplit,
    tokenizer_json: str | os.PathLike,
    root: str | os.PathLike = ".",
) -> Manifest:
    """The manifest of `split` from its shards' paths, relative to `root`, and summaries, in order.

    Raises MlmError if they do not belong together: other settings, another tokenizer or corpus,
    documents left out or used twice, tokens lost, a file of another size.
    """
    tokenizer_sha256 = file_sha256(tokenizer_json)
    _check_belonging(summaries, corpus.documents, tokenizer_sha256, Path(root))
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
        tokenizer_sha256=tokenizer_sha256,
        corpus_sha256=corpus.sha256,
        documents=corpus.documents,
        special_literals=sum(s.special_literals for _, s in summaries),
        **totals(entries),
        shards=entries,
        group_by=corpus.group_by,
    )


def _check_belonging(
    summaries: list[tuple[str, ShardSummary]], documents: int, tokenizer: str, root: Path
) -> None:
    first, next_document, problems = summaries[0][1], 0, []
    for place, (path, s) in enumerate(summaries):
        expected = {
            "shard": place,
            "shards": len(summaries),
            "split": first.split,
            "sequence_length": first.sequence_length,
            "corpus_documents": documents,
            "first_document": next_document,
            "tokenizer_sha256": tokenizer,
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
        raise MlmError(
            f"The {first.split} shards do not belong together:\n{listed(problems)}\n"
            f"Delete results/shards/{first.split} and run again."
        )

"""Merging: the summaries of all shards of a split become its one manifest."""

import os
from dataclasses import fields
from pathlib import Path

from mlm.corpus.artefacts import CorpusSplit
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.summaries import ShardSummary


def merge(
    split: str,
    summaries: list[tuple[str, ShardSummary]],
    corpus: CorpusSplit,
    tokenizer_json: str | os.PathLike,
    root: str | os.PathLike = ".",
) -> Manifest:
    """The manifest of `split` from its shards' paths and summaries, in order; `corpus` describes
    the text that they were made from.

    Raises MlmError where they do not belong together: other settings, another tokenizer or
    corpus, documents left out or taken twice, tokens lost, a file of another size.
    """
    tokenizer_sha256 = file_sha256(tokenizer_json)
    _check_belonging(summaries, corpus.documents, tokenizer_sha256, Path(root))
    entries = tuple(
        ShardEntry(
            name=Path(path).name,
            path=path,
            **{f.name: getattr(s, f.name) for f in fields(ShardEntry)[2:]},
        )
        for path, s in summaries
    )
    first = summaries[0][1]
    return Manifest(
        split=split,
        sequence_length=first.sequence_length,
        compression=first.compression,
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
            "compression": first.compression,
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

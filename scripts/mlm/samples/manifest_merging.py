"""The manifest of a split from the summaries of its shards, which must belong together."""

import os
from pathlib import Path

from mlm.corpus.artefacts import CorpusSplit
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.samples.artefacts import MEASURED, ShardSummary
from mlm.samples.manifests import Manifest, ShardEntry, totals


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
        ShardEntry(name=Path(path).name, path=path, **{name: getattr(s, name) for name in MEASURED})
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

"""datatrove's corpus of the text of `corpus.py`, which runs it in an environment of its own.

    python datatrove_corpus.py CASE INPUT OUTPUT

CASE is exact, near or filters. Every case reads .jsonl files, leaves out texts of fewer than 50
characters, removes exact duplicates and writes Parquet files; near then removes near duplicates by
MinHash, filters applies Gopher's filters before. A task is a file.
"""

import sys
from pathlib import Path

from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    ExactDedupConfig,
    ExactDedupFilter,
    ExactDedupSignature,
    ExactFindDedups,
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter, LambdaFilter
from datatrove.pipeline.readers import JsonlReader, ParquetReader
from datatrove.pipeline.writers import ParquetWriter
from datatrove.utils.hashing import HashConfig

MINHASH = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)


def text_of(document: Document) -> str:
    """What is compared; the library looks at the annotation."""
    return document.text


def long_enough(document: Document) -> bool:
    return len(document.text) >= 50


def main(case: str, given: Path, out: Path) -> None:
    files = sorted(given.glob("train-*.jsonl"))

    def run(stage: str, pipeline: list, tasks: int = len(files)) -> None:
        logs = str(out / "logs" / stage)
        LocalPipelineExecutor(pipeline, tasks, 1, logging_dir=logs).run()

    config = ExactDedupConfig(
        content_getter=text_of,
        hash_config=HashConfig(precision=64),
        only_dedup_in_index=False,
    )
    read = [JsonlReader(str(given), glob_pattern="train-*.jsonl"), LambdaFilter(long_enough)]
    if case == "filters":
        read += [GopherRepetitionFilter(), GopherQualityFilter()]
    # The signatures number the documents that are kept so far: both passes filter alike, and what
    # the filters kept is written down where filtering twice would cost more.
    if case == "filters":
        run("filter", [*read, ParquetWriter(str(out / "filtered"), compression="zstd")])
        read = [ParquetReader(str(out / "filtered"))]
    run("signatures", [*read, ExactDedupSignature(str(out / "signatures"), config)])
    found = ExactFindDedups(str(out / "signatures"), str(out / "duplicates"), config)
    run("find", [found], tasks=1)
    exact = out / ("exact" if case == "near" else "kept")
    kept = ExactDedupFilter(str(out / "duplicates"), config)
    run("exact", [*read, kept, ParquetWriter(str(exact), compression="zstd")])
    if case != "near":
        return
    read = [ParquetReader(str(exact))]
    run("minhash", [*read, MinhashDedupSignature(str(out / "minhash"), MINHASH)])
    buckets = MinhashDedupBuckets(
        str(out / "minhash"), str(out / "buckets"), config=MINHASH, only_dedup_in_index=False
    )
    run("buckets", [buckets], tasks=MINHASH.num_buckets)
    run(
        "cluster",
        [MinhashDedupCluster(str(out / "buckets"), str(out / "removed"), MINHASH)],
        tasks=1,
    )
    removed = MinhashDedupFilter(str(out / "removed"))
    run("near", [*read, removed, ParquetWriter(str(out / "kept"), compression="zstd")])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

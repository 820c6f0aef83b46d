"""Rule `corpus_write`: one of the Parquet files of a split, of the documents that are kept."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.corpus_building import refuse_empty_splits, spooled_corpus, written_held_out
from mlm.corpus.corpus_writing import write_share
from mlm.foundations.atomic import replacing


def main(job):
    corpus = spooled_corpus(job.input.removed, job.input.get("near"))
    refuse_empty_splits(corpus)
    split, share, shares = job.wildcards.split, int(job.wildcards.share), int(job.wildcards.shares)
    held_out = written_held_out({s: list(map(Path, job.input[s])) for s in ("validation", "test")})
    with (
        replacing(job.output.file) as file,
        replacing(job.output.groups) as groups,
        replacing(job.output.shared) as shared,
    ):
        written = write_share(
            corpus, split, share, shares, file, groups, held_out if split == "train" else None
        )
        shared.write_bytes(held_out.shared.tobytes())
    written.write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)

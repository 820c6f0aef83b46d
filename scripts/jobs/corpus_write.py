"""Rule `corpus_write`: one of the Parquet files of a split, of the documents that are kept."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.corpus_writing import write_file
from mlm.corpus.spooling import SpooledCorpus


@run_as_job
def main(job):
    corpus = SpooledCorpus([*job.input.removed, *job.input.near])
    held_out = {split: list(map(Path, job.input[split])) for split in ("validation", "test")}
    share, shares = int(job.wildcards.share), int(job.wildcards.shares)
    write_file(corpus, job.wildcards.split, share, shares, held_out, Path(job.output.record))

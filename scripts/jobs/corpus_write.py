"""Rule `corpus_write`: one of the Parquet files of a split, of the documents that are kept."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.corpus_writing import SpooledCorpus
from mlm.corpus.passes import write


@run_as_job
def main(job):
    corpus = SpooledCorpus(list(map(Path, [*job.input.removed, *job.input.near])))
    held_out = {split: list(map(Path, job.input[split])) for split in ("validation", "test")}
    share, shares = int(job.wildcards.share), int(job.wildcards.shares)
    write(corpus, job.wildcards.split, share, shares, held_out, Path(job.output.record))

"""Rule `corpus_link`: near-duplicates among the documents with a key of a share of the keys."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.corpus_building import link_partition
from mlm.corpus.near_duplicates import LinkSettings


def main(job):
    link_partition(
        [Path(path) for path in job.input.records],
        int(job.wildcards.partition),
        LinkSettings(**job.params.near),
        Path(job.output.links),
    ).write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)

"""Rule `corpus_deduplicate`: duplicates and leaks among a share of the digests of all parts."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.corpus_building import deduplicate_partition
from mlm.corpus.filters import Filters


def main(job):
    deduplicate_partition(
        [Path(record) for record in job.input.records],
        int(job.wildcards.partition),
        Filters(**job.params.filters),
        Path(job.output.removed),
    ).write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)

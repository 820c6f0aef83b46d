"""Rule `corpus_deduplicate`: duplicates and leaks among a share of the digests of all parts."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.filters import Filters
from mlm.corpus.passes import deduplicate


def main(job):
    parts, filters = list(map(Path, job.input.records)), Filters(**job.params.filters)
    partition, record = int(job.wildcards.partition), Path(job.output.record)
    deduplicate(parts, partition, filters.deduplicate, filters.remove_leakage, record)


if __name__ == "__main__":
    run(main, snakemake)

"""Rule `corpus_link`: near-duplicates among the documents with a key of a share of the keys."""

from pathlib import Path

from job_adapter import run
from mlm.config.filters import NearDuplicates
from mlm.corpus.passes import link


def main(job):
    parts, signed = (list(map(Path, job.input[name])) for name in ("records", "signed"))
    near, partition = NearDuplicates.of_param(job.params.near), int(job.wildcards.partition)
    link(parts, signed, partition, near, job.params.leaks, Path(job.output.record))


if __name__ == "__main__":
    run(main, snakemake)

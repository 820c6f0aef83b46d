"""Rule `corpus_cluster`: near-duplicates joined to clusters, of which the first document stays."""

from pathlib import Path

from job_adapter import run
from mlm.config.filters import NearDuplicates
from mlm.corpus.passes import cluster


def main(job):
    removed, linked = (list(map(Path, job.input[name])) for name in ("removed", "linked"))
    cluster(removed, linked, NearDuplicates.of_param(job.params.near), Path(job.output.record))


if __name__ == "__main__":
    run(main, snakemake)

"""Rule `corpus_cluster`: near-duplicates joined to clusters, of which the first document stays."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.corpus_building import cluster
from mlm.corpus.near_duplicates import NearDuplicateSettings


def main(job):
    removed, links = ([Path(path) for path in job.input[name]] for name in ("removed", "links"))
    settings = NearDuplicateSettings(**job.params.near)
    cluster(removed, links, settings, Path(job.output.near)).write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)

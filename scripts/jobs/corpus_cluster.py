"""Rule `corpus_cluster`: cluster near-duplicates and keep one document of each cluster."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.filters import NearDuplicates
from mlm.corpus.passes import cluster


@run_as_job
def main(job):
    removed, signed = (list(map(Path, job.input[name])) for name in ("removed", "signed"))
    near, record = NearDuplicates.of_param(job.params.near), Path(job.output.record)
    cluster(removed, signed, near, job.params.leaks, record)

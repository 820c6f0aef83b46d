"""Rule `corpus_cluster`: cluster near-duplicates and keep one document of each cluster."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.filters import NearDuplicates
from mlm.corpus.near_clusters import cluster
from mlm.corpus.spooling import SpooledCorpus


@run_as_job
def main(job):
    corpus, signed = SpooledCorpus(job.input.removed), list(map(Path, job.input.signed))
    near, record = NearDuplicates.of_param(job.params.near), Path(job.output.record)
    cluster(corpus, signed, near, job.params.leaks, record)

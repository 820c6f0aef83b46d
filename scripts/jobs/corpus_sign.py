"""Rule `corpus_sign`: the MinHash signatures of a part's documents."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.filters import NearDuplicates
from mlm.corpus.near_duplicates import sign
from mlm.corpus.spooling import SpooledCorpus


@run_as_job
def main(job):
    corpus, near = SpooledCorpus(job.input.removed), NearDuplicates.of_param(job.params.near)
    sign(corpus, int(job.wildcards.part), near, Path(job.output.record))

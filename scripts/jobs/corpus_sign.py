"""Rule `corpus_sign`: the MinHash signatures of a part's documents."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.filters import NearDuplicates
from mlm.corpus.passes import sign


@run_as_job
def main(job):
    removed, record = list(map(Path, job.input.removed)), Path(job.output.record)
    sign(removed, int(job.wildcards.part), NearDuplicates.of_param(job.params.near), record)

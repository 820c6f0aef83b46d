"""Rule `corpus_decontaminate`: documents of a part of train that share words with held-out ones."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.passes import decontaminate


@run_as_job
def main(job):
    removed, record = list(map(Path, job.input.removed)), Path(job.output.record)
    decontaminate(removed, int(job.wildcards.part), job.params.settings, record)

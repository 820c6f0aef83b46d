"""Rule `corpus_decontaminate`: documents of a part of train that share words with held-out ones."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.decontamination import decontaminate
from mlm.corpus.spooling import SpooledCorpus


@run_as_job
def main(job):
    corpus, part = SpooledCorpus(job.input.removed), int(job.wildcards.part)
    decontaminate(corpus, part, job.params.settings, Path(job.output.record))

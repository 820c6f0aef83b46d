"""Rule `corpus_read`: the first pass over a part of the source."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.part_reading import check_unchanged, read_part
from mlm.corpus.spooling import PartFiles


@run_as_job
def main(job):
    check_unchanged(job.params.files)
    read_part(job.params.settings, job.params.part, PartFiles(Path(job.output.record)))

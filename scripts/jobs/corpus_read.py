"""Rule `corpus_read`: the first pass over a part of the source."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.mix import open_part
from mlm.corpus.part_reading import PartFiles, check_unchanged, read_source


@run_as_job
def main(job):
    settings, part = job.params.settings, job.params.part
    check_unchanged(job.params.files)
    files = PartFiles.below(Path(job.output.record).parent, int(job.wildcards.part))
    read_source(*open_part(settings, part), files)

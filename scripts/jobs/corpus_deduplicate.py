"""Rule `corpus_deduplicate`: duplicates and leaks among the documents of all parts."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.corpus.deduplication import deduplicate


@run_as_job
def main(job):
    parts, filters = list(map(Path, job.input.records)), job.params.filters
    record = Path(job.output.record)
    deduplicate(parts, filters["deduplicate"], filters["remove_leakage"], record)

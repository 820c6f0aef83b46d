"""Rule `index_split`: an index of the words of a split, for questions about a large corpus."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.asking.text_index import build_index


@run_as_job
def main(job):
    described, index = Path(job.input.described), Path(job.output.index)
    record = build_index(job.wildcards.split, described, index)
    record.write(job.output.record)
    return Done(f"{record.documents:,} documents, {record.num_bytes:,} bytes")

"""Rule `index_split`: which words stand where in a split, for questions about a large corpus."""

from pathlib import Path

from job_adapter import run
from mlm.asking.text_index import build_index


def main(job):
    files = (job.input.described, job.input.manifest, job.input.tokenizer, job.output.index)
    record = build_index(job.wildcards.split, *map(Path, files))
    record.write(job.output.record)
    print(f"{record.split}: {record.documents:,} documents, {record.num_bytes:,} bytes")


if __name__ == "__main__":
    run(main, snakemake)

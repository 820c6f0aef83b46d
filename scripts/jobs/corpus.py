"""Rule `corpus`: any source of text to the Parquet files of three splits, one document a row."""

import sys
from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.config.fields import SPLITS
from mlm.corpus.corpus_building import build_corpus, remove_other_parts, take_over
from mlm.foundations.phrasing import in_bytes


@run_as_job
def main(job):
    parquet = {split: list(job.output[split]) for split in SPLITS}
    described = {split: job.output[f"{split}_json"] for split in SPLITS}
    known = {}
    if parts := job.input.get("parts"):
        made, known = take_over(Path(parts[0]).parent, parquet, described, job.threads)
    else:
        files = {split: list(job.input[split]) for split in SPLITS}
        made = build_corpus(job.params.settings, files, parquet, described)
    parts = Path(described["train"]).with_name("parts")
    remove_other_parts(parts, job.params.operational["parts"])
    for split, described in made.items():
        words = f"{split}: {described.documents:,} documents, {described.bytes:,} bytes"
        print(words, file=sys.stderr)
    documents, size = (
        sum(getattr(s, key) for s in made.values()) for key in ("documents", "bytes")
    )
    return Done(f"{documents:,} documents, {in_bytes(size)}", known)

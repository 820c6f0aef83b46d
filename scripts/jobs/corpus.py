"""The corpus: a source to the Parquet files of three splits, read here or in jobs of parts."""

import sys
from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


@run_as_job("corpus_read")
def read(job: Any):
    from mlm.config.corpus import CorpusConfiguration
    from mlm.corpus.corpus_building import read_part
    from mlm.corpus.source_files import Part

    configuration = CorpusConfiguration.model_validate(job.params.corpus)
    read_part(configuration, Part(**job.params.part), Path(job.output.record))


# The job itself checks what parts left.
@run_as_job("corpus")
def build(job: Any):
    from mlm.config.corpus import CorpusConfiguration
    from mlm.config.fields import SPLITS
    from mlm.corpus.corpus_building import build_corpus
    from mlm.corpus.source_files import Part
    from mlm.foundations.terminal import in_bytes

    configuration = CorpusConfiguration.model_validate(job.params.corpus)
    parts = [Part(**part) for part in job.params.planned.parts]
    read = list(map(Path, job.input.get("parts", [])))
    parquet = {split: list(job.output[split]) for split in SPLITS}
    described = {split: job.output[f"{split}_json"] for split in SPLITS}
    records = [path for path in read if path.suffix == ".json"]
    splits = build_corpus(configuration, parts, parquet, described, records, job.threads)
    # Left by other numbers of parts, and by killed jobs.
    for path in Path(described["train"]).with_name("parts").glob("*"):
        if path not in read:
            path.unlink()
    digests = {}
    for name, split in splits.items():
        print(f"{name}: {split.documents:,} documents, {split.bytes:,} bytes", file=sys.stderr)
        digests |= zip(parquet[name], (file.sha256 for file in split.files), strict=True)
    documents = sum(split.documents for split in splits.values())
    size = in_bytes(sum(split.bytes for split in splits.values()))
    return Done(f"{documents:,} documents, {size}", digests)

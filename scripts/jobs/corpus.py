"""The corpus: a source to the Parquet files of three splits, in one job or in passes over parts."""

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


@run_as_job("corpus_deduplicate")
def find_duplicates(job: Any):
    from mlm.corpus.deduplication import deduplicate

    parts, params = list(map(Path, job.input.records)), job.params
    deduplicate(parts, params.deduplicate, params.remove_leakage, Path(job.output.record))


@run_as_job("corpus_compare")
def compare_documents(job: Any):
    from mlm.config.corpus import CorpusConfiguration
    from mlm.config.filters import NearDuplicates
    from mlm.corpus.decontamination import decontaminate
    from mlm.corpus.near_duplicates import sign
    from mlm.corpus.spooling import SpooledCorpus

    part, removed, output = int(job.wildcards.part), [job.input.removed], job.output
    if overlap := output.get("overlap_json"):
        configuration = CorpusConfiguration.model_validate(job.params.corpus)
        decontaminate(SpooledCorpus(removed), part, configuration, Path(overlap))
        removed.append(overlap)
    if signed := output.get("signed_json"):
        near = NearDuplicates.model_validate(job.params.near)
        sign(SpooledCorpus(removed), part, near, Path(signed))


@run_as_job("corpus_cluster")
def find_near_duplicates(job: Any):
    from mlm.config.filters import NearDuplicates
    from mlm.corpus.near_duplicates import cluster
    from mlm.corpus.spooling import SpooledCorpus

    corpus, signed = SpooledCorpus(job.input.removed), list(map(Path, job.input.signed))
    near = NearDuplicates.model_validate(job.params.near)
    cluster(corpus, signed, near, job.params.remove_leakage, Path(job.output.record))


@run_as_job("corpus_write")
def write_parquet(job: Any):
    from mlm.corpus.corpus_writing import write_file
    from mlm.corpus.spooling import SpooledCorpus

    corpus = SpooledCorpus([*job.input.removed, *job.input.near])
    held_out = {split: list(map(Path, job.input[split])) for split in ("validation", "test")}
    share, shares = int(job.wildcards.share), int(job.wildcards.shares)
    write_file(corpus, job.wildcards.split, share, shares, held_out, Path(job.output.record))


# The pass itself checks these files, or does not open them.
@run_as_job("corpus_counts", unread=("spools", "verdicts", "signed", "files"))
def describe_splits(job: Any):
    from mlm.config.fields import SPLITS
    from mlm.corpus.corpus_building import remove_other_parts
    from mlm.corpus.corpus_writing import described_splits
    from mlm.corpus.spooling import SpooledCorpus

    corpus = SpooledCorpus([*job.input.removed, *job.input.near])
    written = {split: list(map(Path, job.input[f"{split}_records"])) for split in SPLITS}
    for split, description in described_splits(corpus, written).items():
        description.write(job.output[split])
    directory = Path(job.input.records[0]).parent
    remove_other_parts(directory.parent, directory.name)


@run_as_job("corpus")
def build(job: Any):
    from mlm.config.corpus import CorpusConfiguration
    from mlm.config.fields import SPLITS
    from mlm.corpus.corpus_building import build_corpus, remove_other_parts, take_over
    from mlm.foundations.terminal import in_bytes

    parquet = {split: list(job.output[split]) for split in SPLITS}
    described = {split: job.output[f"{split}_json"] for split in SPLITS}
    if parts := job.input.get("parts"):
        splits = take_over(Path(parts[0]).parent, parquet, described, job.threads)
    else:
        files = {split: list(job.input[split]) for split in SPLITS}
        configuration = CorpusConfiguration.model_validate(job.params.corpus)
        splits = build_corpus(configuration, files, parquet, described)
        remove_other_parts(Path(described["train"]).with_name("parts"))
    digests = {}
    for name, split in splits.items():
        print(f"{name}: {split.documents:,} documents, {split.bytes:,} bytes", file=sys.stderr)
        digests |= zip(parquet[name], (file.sha256 for file in split.files), strict=True)
    documents = sum(split.documents for split in splits.values())
    size = in_bytes(sum(split.bytes for split in splits.values()))
    return Done(f"{documents:,} documents, {size}", digests)

"""Rule `manifest`: the shards of a split, named with their counts and digests."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.corpus.artefacts import CorpusSplit
from mlm.samples.artefacts import ShardSummary
from mlm.samples.manifest_merging import merged_manifest
from mlm.samples.manifests import project_root


@run_as_job(unread=("shards",))
def main(job):
    root = project_root(job.output[0])
    summaries = [
        (Path(shard).relative_to(root).as_posix(), ShardSummary.read(summary))
        for shard, summary in zip(job.input.shards, job.input.summaries, strict=True)
    ]
    corpus = CorpusSplit.read(job.input.described)
    manifest = merged_manifest(job.wildcards.split, summaries, corpus, job.input.tokenizer, root)
    manifest.write(job.output[0])
    return Done(f"{manifest.num_samples:,} samples, {manifest.num_tokens:,} tokens")

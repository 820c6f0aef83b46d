"""Rule `manifest`: the shards of a split, named with their counts and digests."""

from pathlib import Path

from mlm.jobs.job import run
from mlm.shards.manifest_merging import merge
from mlm.shards.manifests import project_root, write_manifest
from mlm.shards.summaries import read_summary


def main(job):
    root = project_root(job.output[0])
    summaries = [
        (Path(shard).relative_to(root).as_posix(), read_summary(summary))
        for shard, summary in zip(job.input.shards, job.input.summaries, strict=True)
    ]
    manifest = merge(job.wildcards.split, summaries, job.input.corpus, job.input.tokenizer, root)
    write_manifest(job.output[0], manifest)


if __name__ == "__main__":
    run(main, snakemake, unread=("shards",))

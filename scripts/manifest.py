"""Rule `manifest`: the shards of a split, named with their counts and digests."""

from mlm.job import run
from mlm.manifest_merging import merge
from mlm.manifests import write_manifest
from mlm.shard_summaries import read_summary


def main(job):
    summaries = [
        (str(shard), read_summary(summary))
        for shard, summary in zip(job.input.shards, job.input.summaries, strict=True)
    ]
    manifest = merge(job.wildcards.split, summaries, job.input.corpus, job.input.tokenizer)
    write_manifest(job.output[0], manifest)


if __name__ == "__main__":
    run(main, snakemake)

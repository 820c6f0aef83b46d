"""Rule `shard`: one shard of a split, and the sidecar file that sums it up."""

import os

from job_adapter import run


def main(job):
    # The tokenizer's thread pool takes its size from here when it is first used.
    os.environ["RAYON_NUM_THREADS"] = str(job.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if job.threads > 1 else "false"
    from mlm.corpus.split_documents import SplitDocuments
    from mlm.samples.sharding import ShardSettings, write_shard
    from mlm.tokenizer.encoding import Encoder

    settings = ShardSettings(
        split=job.wildcards.split,
        shard=int(job.wildcards.shard),
        shards=int(job.wildcards.shards),
        **job.params.samples,
        read_batch=job.params.operational["read_batch"],
    )
    write_shard(
        settings,
        Encoder.load(job.input.tokenizer),
        SplitDocuments.described(job.input.described),
        job.input.tokenizer,
        job.output.shard,
        job.output.summary,
    )


if __name__ == "__main__":
    run(main, snakemake, unread=("corpus",))

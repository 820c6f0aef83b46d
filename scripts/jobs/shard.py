"""Rule `shard`: one shard of a split, and its summary beside it."""

from job_adapter import Done, limit_tokenizer_threads, run_as_job


@run_as_job(unread=("corpus",))
def main(job):
    limit_tokenizer_threads(job.threads)
    from mlm.config.tokenizer import Shards
    from mlm.corpus.split_documents import SplitDocuments
    from mlm.samples.sharding import write_shard
    from mlm.tokenizer.encoding import Encoder

    asked, tokenizer = job.wildcards, job.input.tokenizer
    section = Shards.of_param(job.params.samples)
    documents = SplitDocuments.described(job.input.described)
    place = asked.split, int(asked.shard), int(asked.shards)
    encoder = Encoder.load(tokenizer)
    made = write_shard(*place, section, encoder, tokenizer, documents, job.output.shard)
    return Done(f"{made.num_samples:,} samples, {made.num_tokens:,} tokens")

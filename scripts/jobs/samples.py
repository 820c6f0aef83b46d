"""From documents to samples: a shard, a manifest, and a few samples decoded for the report."""

from pathlib import Path
from typing import Any

from job_adapter import Done, limit_tokenizer_threads, run_as_job


@run_as_job("shard", unread=("corpus",))
def write_one_shard(job: Any):
    limit_tokenizer_threads(job.threads)
    from mlm.config.tokenizer import Shards
    from mlm.samples.sharding import write_shard
    from mlm.tokenizer.encoding import Encoder

    tokenizer, share = job.input.tokenizer, (int(job.wildcards.shard), int(job.wildcards.shards))
    section, encoder = Shards.model_validate(job.params.shards), Encoder.load(tokenizer)
    shard = write_shard(job.output.shard, share, job.input.described, section, encoder, tokenizer)
    return Done(f"{shard.num_samples:,} samples, {shard.num_tokens:,} tokens")


@run_as_job("manifest", unread=("shards",))
def write_manifest(job: Any):
    from mlm.corpus.artefacts import CorpusSplit
    from mlm.samples.manifests import Manifest
    from mlm.samples.sharding import merged_manifest

    parts = [Manifest.read(path) for path in job.input.summaries]
    corpus = CorpusSplit.read(job.input.described)
    manifest = merged_manifest(parts, corpus)
    manifest.write(job.output[0])
    return Done(f"{manifest.num_samples:,} samples, {manifest.num_tokens:,} tokens")


@run_as_job("masked_samples")
def decode_masked_samples(job: Any):
    import transformers

    from mlm.config.pretraining import Recipe
    from mlm.samples.batch_order import BatchOrder
    from mlm.samples.manifests import Manifest, project_root
    from mlm.samples.masking import masking_plan
    from mlm.samples.preview import Preview, preview_samples
    from mlm.samples.shard_reading import ShardFiles
    from mlm.tokenizer.encoding import Encoder

    length, section = job.params.sequence_length, Recipe.model_validate(job.params.pretraining)
    tokenizer = job.input.tokenizer
    manifest = Manifest.read(job.input.train)
    phase = section.in_phases(length)[0]
    manifest = manifest.in_rows(phase.sequence_length // length)
    masking = section.masking.model_copy(update={"mlm_probability": phase.mlm_probability})
    plan = masking_plan(masking, Encoder.load(tokenizer), tokenizer, phase.sequence_length)
    shards = ShardFiles.of(manifest)
    order = BatchOrder(job.params.seed, 1, section.shuffle_window, 0, 1).of_samples(shards)
    decoder = transformers.PreTrainedTokenizerFast.from_pretrained(Path(tokenizer).parent)
    samples = preview_samples(manifest, plan, order, decoder, 5, project_root(job.input.train))
    Preview(job.wildcards.run, samples).write(job.output[0])

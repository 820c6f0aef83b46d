"""Rule `masked_samples`: a few samples of a run, decoded, before and after masking."""

from pathlib import Path

from job_adapter import run_as_job


@run_as_job
def main(job):
    from transformers import PreTrainedTokenizerFast

    from mlm.config.pretraining import Masking
    from mlm.samples.artefacts import Preview
    from mlm.samples.manifests import Manifest, check_sequence_length, shards_root
    from mlm.samples.masking import masking_plan
    from mlm.samples.preview import preview_samples
    from mlm.samples.shuffling import SampleOrder
    from mlm.tokenizer.encoding import Encoder

    length, tokenizer = job.params.sequence_length, job.input.tokenizer
    manifest = Manifest.read(job.input.train)
    check_sequence_length(manifest, length)
    masking = Masking.of_param(job.params.pretraining["masking"])
    plan = masking_plan(
        masking,
        Encoder.load(tokenizer),
        tokenizer,
        length,
        holes=next(iter(job.input.holes), None),
        manifest=job.input.train,
    )
    seed = job.params.pretraining["seed"]
    order = SampleOrder(
        tuple(shard.num_samples for shard in manifest.shards),
        job.params.seed if seed is None else seed,
        job.params.pretraining["shuffle_window"],
    )
    samples = preview_samples(
        manifest,
        plan,
        order,
        PreTrainedTokenizerFast.from_pretrained(Path(tokenizer).parent),
        job.params.evaluation["samples"],
        shards_root(manifest, job.input.train),
    )
    Preview(job.wildcards.run, samples).write(job.output[0])

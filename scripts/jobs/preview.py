"""Rule `masked_samples`: a few samples of a run, decoded, before and after masking."""

from pathlib import Path

from job_adapter import run_as_job


@run_as_job
def main(job):
    from transformers import PreTrainedTokenizerFast

    from mlm.config.pretraining import Masking
    from mlm.samples.artefacts import Preview
    from mlm.samples.manifests import Manifest, check_sequence_length, project_root
    from mlm.samples.masking import masking_plan
    from mlm.samples.preview import preview_samples
    from mlm.samples.shuffling import SampleOrder
    from mlm.tokenizer.encoding import Encoder

    length, section = job.params.sequence_length, job.params.pretraining
    tokenizer = job.input.tokenizer
    manifest = Manifest.read(job.input.train)
    check_sequence_length(manifest, length)
    masking = Masking.of_param(section["masking"])
    plan = masking_plan(masking, Encoder.load(tokenizer), tokenizer, length)
    order = SampleOrder(
        tuple(shard.num_samples for shard in manifest.shards),
        job.params.seed if section["seed"] is None else section["seed"],
        section["shuffle_window"],
    )
    decoder = PreTrainedTokenizerFast.from_pretrained(Path(tokenizer).parent)
    root = project_root(job.input.train)
    samples = preview_samples(manifest, plan, order, decoder, 5, root)
    Preview(job.wildcards.run, samples).write(job.output[0])

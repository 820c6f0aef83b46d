"""Rule `masked_samples`: a few samples of a run, decoded, before and after masking."""

from pathlib import Path

from mlm.jobs.job import run


def main(job):
    from transformers import PreTrainedTokenizerFast

    from mlm.batches.masking_settings import masking_plan
    from mlm.batches.preview import as_json, preview_samples
    from mlm.results.artefacts import write_artefact
    from mlm.shards.manifests import check_sequence_length, read_manifest, shards_root
    from mlm.tokenizer.encoding import Encoder

    length, tokenizer = job.params.sequence_length, job.input.tokenizer
    manifest = read_manifest(job.input.train)
    check_sequence_length(manifest, length)
    plan = masking_plan(
        job.params.pretraining["masking"], Encoder.load(tokenizer), tokenizer, length
    )
    seed = job.params.pretraining["seed"]
    samples = preview_samples(
        manifest,
        plan,
        job.params.seed if seed is None else seed,
        PreTrainedTokenizerFast.from_pretrained(Path(tokenizer).parent),
        job.params.evaluation["samples"],
        shards_root(manifest, job.input.train),
    )
    write_artefact(job.output[0], as_json(job.wildcards.run, samples))


if __name__ == "__main__":
    run(main, snakemake)

"""Rule `find_batch`: the largest per-replica batch that fits each target."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.accelerators.batch_search import find_batches
    from mlm.accelerators.compiler import require_compilers
    from mlm.config.resolution import RunConfiguration
    from mlm.training.run import RunFiles

    keys = ("model", "pretraining", "accelerator", "seed", "sequence_length")
    config = {key: job.params[key] for key in keys} | {"name": job.wildcards.run}
    manifests = {"train": job.input.train, "validation": job.input.validation}
    require_compilers(job.params.targets)
    run = RunConfiguration.of_param(config)
    files = RunFiles(job.input.tokenizer, manifests)
    find_batches(run, files, list(job.params.targets)).write(job.output[0])

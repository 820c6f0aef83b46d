"""Rule `lower_train_step`: the programs of a run's steps, checked against XLA's rules."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.accelerators.lowering import lower_run
    from mlm.config.evaluation import Evaluation
    from mlm.config.resolution import RunConfiguration
    from mlm.training.run import RunFiles

    keys = ("model", "pretraining", "accelerator", "seed", "sequence_length")
    config = {key: job.params[key] for key in keys} | {"name": job.wildcards.run}
    manifests = {"train": job.input.train, "validation": job.input.validation}
    lowering = lower_run(
        RunConfiguration.of_param(config | {"holes": None}),
        RunFiles(job.input.tokenizer, manifests),
        job.output.program,
        Evaluation.of_param(job.params.evaluation),
        job.output.validation,
        dict(zip(job.params.replicas, job.output.evaluation, strict=True)),
    )
    lowering.write(job.output.summary)

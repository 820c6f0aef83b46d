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
    run = RunConfiguration.of_param(config)
    files, made = RunFiles(job.input.tokenizer, manifests), job.output
    evaluation = Evaluation.of_param(job.params.evaluation)
    of_replicas = dict(zip(job.params.replicas, made.evaluation, strict=True))
    lowering = lower_run(run, files, made.program, evaluation, made.validation, of_replicas)
    lowering.write(made.summary)

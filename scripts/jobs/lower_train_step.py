"""Rule `lower_train_step`: the programs of a run's steps, checked against XLA's rules."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.accelerators.lowering import lower_run
    from mlm.config.evaluation import Evaluation
    from mlm.config.resolution import RunConfiguration
    from mlm.training.run import RunFiles

    keys = ("model", "pretraining", "accelerator", "seed", "sequence_length")
    settings = {key: getattr(job.params, key) for key in keys}
    settings |= {"name": job.wildcards.run, "holes": None}
    lowering = lower_run(
        RunConfiguration.of_param(settings),
        RunFiles(
            job.input.tokenizer, {"train": job.input.train, "validation": job.input.validation}
        ),
        job.output.program,
        Evaluation.of_param(job.params.evaluation),
        job.output.validation,
        dict(zip(job.params.replicas, job.output.evaluation, strict=True)),
    )
    lowering.write(job.output.summary)

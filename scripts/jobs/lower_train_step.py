"""Rule `lower_train_step`: the run's steps as StableHLO, checked against XLA's rules."""

from job_adapter import run


def main(job):
    from mlm.accelerators.described_steps import ForwardSteps
    from mlm.accelerators.lowering_job import lower_run
    from mlm.config.evaluation import Evaluation
    from mlm.config.run import RunConfiguration
    from mlm.training.run import RunFiles

    settings = RunConfiguration.of_param(
        {
            "name": job.wildcards.run,
            "model": job.params.model,
            "pretraining": job.params.pretraining,
            "accelerator": {"precision": job.params.precision},
            "seed": job.params.seed,
            "sequence_length": job.params.sequence_length,
            "holes": None,
        }
    )
    files = RunFiles(
        tokenizer=job.input.tokenizer,
        manifests={"train": job.input.train, "validation": job.input.validation},
    )
    forward = ForwardSteps(
        section=Evaluation.of_param(job.params.evaluation),
        validation=job.output.validation,
        evaluation=dict(zip(job.params.replicas, job.output.evaluation, strict=True)),
    )
    lower_run(settings, files, job.output.program, job.output.summary, forward)


if __name__ == "__main__":
    run(main, snakemake)

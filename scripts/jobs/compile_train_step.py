"""Rule `compile_train_step`: compile a run's lowered step for every TPU target and judge."""

from job_adapter import run


def main(job):
    from mlm.accelerators.checks import PreflightFiles, preflight
    from mlm.accelerators.compiler import require_compiler
    from mlm.accelerators.data_readiness import Reach
    from mlm.config.accelerator import Preflight
    from mlm.config.pretraining import Pretraining

    require_compiler()
    verdict = preflight(
        Preflight.of_param(job.params.preflight),
        PreflightFiles(
            program=job.input.program,
            lowering=job.input.lowering,
            manifest=job.input.train,
            validation=job.input.validation,
            evaluation=dict(zip(job.params.replicas, job.input.evaluation, strict=True)),
            batches=job.input.batches[0] if job.input.batches else None,
        ),
        Reach(job.params.tpu_name, job.params.state_directory),
        Pretraining.of_param(job.params.pretraining),
        at_once=job.threads,
    )
    verdict.write(job.output[0])


if __name__ == "__main__":
    run(main, snakemake)

"""Rule `compile_train_step`: compile a run's lowered step for every TPU target and judge."""

from mlm.jobs.job import run


def main(job):
    from mlm.preflight.checks import PreflightFiles, PreflightSettings, preflight
    from mlm.preflight.data_readiness import Reach
    from mlm.tpu.compiler import require_compiler

    require_compiler()
    verdict = preflight(
        PreflightSettings.of(job.params.targets, job.params.utilisation, job.params.effort),
        PreflightFiles(
            program=job.input.program,
            lowering=job.input.lowering,
            manifest=job.input.train,
            validation=job.input.validation,
            evaluation=dict(zip(job.params.replicas, job.input.evaluation, strict=True)),
            batches=job.input.batches[0] if job.input.batches else None,
        ),
        Reach(job.params.tpu_name, job.params.state_directory),
        job.params.pretraining,
        at_once=job.threads,
    )
    verdict.write(job.output[0])


if __name__ == "__main__":
    run(main, snakemake)

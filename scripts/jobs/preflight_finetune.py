"""Rule `preflight_finetune`: compile a fine-tuning's step for every TPU target and judge."""

from job_adapter import run


def main(job):
    from mlm.accelerators.checks import PreflightSettings
    from mlm.accelerators.compiler import require_compiler
    from mlm.accelerators.finetuning_checks import preflight_finetuning

    require_compiler()
    verdict = preflight_finetuning(
        PreflightSettings(tuple(job.params.targets), job.params.effort),
        job.input.lowering,
        job.input.examples,
        job.params.finetune,
        precision=job.params.precision,
    )
    verdict.write(job.output[0])


if __name__ == "__main__":
    run(main, snakemake)

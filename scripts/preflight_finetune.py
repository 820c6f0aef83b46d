"""Rule `preflight_finetune`: compile a fine-tuning's step for every TPU target and judge."""

from mlm.jobs.job import run


def main(job):
    from mlm.preflight.checks import PreflightSettings
    from mlm.preflight.finetuning_checks import FinetuningFiles, preflight_finetuning

    preflight_finetuning(
        PreflightSettings.of(job.params.targets, job.params.utilisation, job.params.effort),
        FinetuningFiles(
            lowering=job.input.lowering, examples=job.input.examples, report=job.output[0]
        ),
        job.params.finetune,
        precision=job.params.precision,
    )


if __name__ == "__main__":
    run(main, snakemake)

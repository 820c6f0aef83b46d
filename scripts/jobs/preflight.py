"""The preflight: compile the train steps of each run for every target, and show the verdicts."""

from typing import Any

from job_adapter import run_as_job


@run_as_job("compile_train_step")
def compile_steps(job: Any):
    from mlm.config.fields import SPLITS
    from mlm.config.pretraining import RunConfiguration
    from mlm.preflight.compiler import require_compilers
    from mlm.preflight.judging import preflight
    from mlm.training.run import RunFiles

    require_compilers(job.params.targets)
    data = job.params.vocabulary
    if job.input:
        manifests = {split: job.input[split] for split in SPLITS[:2]}
        data = RunFiles(job.input.tokenizer, manifests)
    training = RunConfiguration.model_validate(job.params.training)
    verdict = preflight(job.params.targets, training, data)
    verdict.write(job.output[0])


@run_as_job("preflight")
def show_verdicts(job: Any):
    """Show the verdicts, and fail if one of them is a failure."""
    from mlm.preflight.artefacts import show_and_require

    show_and_require(list(job.input.reports), job.output[0])

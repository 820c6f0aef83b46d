"""Before a run: the check; the preflight, which compiles the train steps for every target."""

from typing import Any

from job_adapter import limit_tokenizer_threads, run_as_job


@run_as_job("check")
def check_configuration(job: Any):
    """Say what stands in the way of a run, and what it will take."""
    limit_tokenizer_threads(1)
    from mlm.check.check import check, show
    from mlm.config.overlays import resolve

    show(check(resolve(job.params.settings)))


@run_as_job("compile_train_step")
def compile_steps(job: Any):
    from mlm.config.fields import SPLITS
    from mlm.config.pretraining import RunConfiguration
    from mlm.preflight.compiler import require_compilers
    from mlm.preflight.judging import preflight
    from mlm.training.resolved_run import RunFiles

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

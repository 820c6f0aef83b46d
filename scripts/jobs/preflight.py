"""The preflight: compile the steps of each run for every target, and show the verdicts."""

from job_adapter import run_as_job


@run_as_job("compile_train_step")
def compile_steps(job):
    from mlm.accelerators.compiler import require_compilers
    from mlm.accelerators.preflight import preflight
    from mlm.config.accelerator import Preflight
    from mlm.config.evaluation import Evaluation
    from mlm.config.resolution import RunConfiguration
    from mlm.training.run import RunFiles

    section = Preflight.of_param(job.params.preflight)
    require_compilers(section.targets)
    keys = ("model", "pretraining", "accelerator", "seed", "sequence_length")
    config = {key: job.params[key] for key in keys} | {"name": job.wildcards.run}
    manifests = {"train": job.input.train, "validation": job.input.validation}
    verdict = preflight(
        section,
        RunConfiguration.of_param(config),
        RunFiles(job.input.tokenizer, manifests),
        Evaluation.of_param(job.params.evaluation),
        job.params.state_directory,
    )
    verdict.write(job.output[0])


@run_as_job("preflight")
def show_verdicts(job):
    """Show the verdicts, and fail if one of them is a failure."""
    from mlm.accelerators.verdict_table import show_and_require

    show_and_require(list(job.input.reports), job.output[0])

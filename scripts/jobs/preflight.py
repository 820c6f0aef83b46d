"""Rule `preflight`: show the verdicts, and stop at a failed one."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.accelerators.verdict_table import show_and_require

    show_and_require(list(job.input.reports), job.output[0])

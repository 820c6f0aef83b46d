"""Rules `preflight` and `preflight_passed`: show the verdicts, and stop at a failed one."""

from job_adapter import run


def main(job):
    from mlm.accelerators.verdict_table import show_and_require

    show_and_require(list(job.input.reports), job.output[0])


if __name__ == "__main__":
    run(main, snakemake)

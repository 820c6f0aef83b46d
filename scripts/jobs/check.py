"""Rule `check`: say what stands in the way of a run, and what it will take."""

from typing import Any

from job_adapter import limit_tokenizer_threads, run_as_job


@run_as_job("check")
def check_configuration(job: Any):
    limit_tokenizer_threads(1)
    from mlm.check.check import check, show
    from mlm.config.resolution import resolve

    show(check(resolve(job.params.settings)))

"""Rule `check`: say what stands in the way of a run, and what it will take."""

import os

from job_adapter import run_as_job


@run_as_job
def main(job):
    # As for the jobs of tokenizer and shards, before the library is loaded.
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from mlm.check.check import check, show
    from mlm.config.resolution import resolve

    show(check(resolve(job.params.given)))

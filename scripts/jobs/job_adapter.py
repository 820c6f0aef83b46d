"""What each adapter begins with: the library's path, and the job around its call."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mlm.foundations.environment import check_environment
from mlm.foundations.errors import MlmError
from mlm.foundations.job import Done, begin, run
from mlm.foundations.terminal import end_by_signals

__all__ = ["Done", "limit_tokenizer_threads", "run_as_job"]

# Before the imports that take seconds.
end_by_signals()
try:
    check_environment()
except MlmError as error:
    sys.exit(f"\nError: {error}\n")
if _job := vars(sys.modules["__main__"]).get("snakemake"):
    begin(_job)


def limit_tokenizer_threads(count):
    """Give the thread pool of the package tokenizers `count` threads, before it is first used."""
    os.environ["RAYON_NUM_THREADS"] = str(count)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if count > 1 else "false"


def run_as_job(*rules, unread=()):
    """Decorates the function of an adapter that Snakemake runs for `rules`, with `unread` as `run`
    has it. An edit of it reruns those rules alone."""

    def decorated(main):
        job = main.__globals__.get("snakemake")
        if main.__module__ == "__main__" and job and job.rule in rules:
            run(main, job, unread)
        return main

    return decorated

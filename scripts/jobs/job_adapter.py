"""What each adapter begins with: the library's path, and the job around its call."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mlm.foundations.job import Done, Job

__all__ = ["Done", "limit_tokenizer_threads", "run_as_job"]
_snakemake = vars(sys.modules["__main__"]).get("snakemake")
_job = Job(_snakemake) if _snakemake else None
if _job:
    # Before the imports that take seconds.
    _job.begin()


def limit_tokenizer_threads(count: int) -> None:
    """Give the thread pool of the package tokenizers `count` threads, before it is first used."""
    os.environ["RAYON_NUM_THREADS"] = str(count)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if count > 1 else "false"


def run_as_job(*rules: str, unread: tuple[str, ...] = ()) -> Callable[[Callable], Callable]:
    """Decorates the function of an adapter that Snakemake runs for `rules`, with `unread` as
    `Job.run` has it. An edit of it reruns those rules alone."""

    def decorated(main: Callable) -> Callable:
        if _job and main.__module__ == "__main__" and _job.rule in rules:
            _job.run(main, unread)
        return main

    return decorated

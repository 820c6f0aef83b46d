"""What is refused before the first job: whatever would make a job fail after its work, or after
hours of that of others."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mlm.evaluation.pair_files import read_pair_files
from mlm.foundations.environment import check_environment
from mlm.foundations.snakemake_session import check_dates
from mlm.preflight.compiler import require_compilers
from mlm.publishing.secrecy import token_from_environment


def check_before_work(jobs: Sequence[Any], targets: Iterable[str], here: bool) -> None:
    """Raise MlmError if one of `jobs`, Snakemake's, would fail. `targets` are those of the
    preflight; `here`: the jobs run on this machine, in the environment of this process."""
    rules: Collection[str] = {job.rule.name for job in jobs}
    read_pair_files(path for job in jobs for path in job.input.get("pairs", []))
    if here:
        check_environment()
    # Of files in a bucket, the dates here do not count.
    inputs = {str(file) for job in jobs for file in job.input if not file.is_storage}
    check_dates(inputs - {str(file) for job in jobs for file in job.output})
    if "compile_train_step" in rules and here:
        require_compilers(targets)
    if any(rule.startswith("publish_") for rule in rules):
        token_from_environment()

"""SIGKILL of Snakemake itself, in the middle of a job: the same command goes on."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from tests.conftest import users_environment, waited_for

from .conftest import ROOT, TINY, speeches

pytestmark = pytest.mark.workflow

COMMAND = [sys.executable, "-m", "snakemake", "--cores=1", "-s", str(ROOT / "Snakefile")]
TARGET = "results/corpus/train.parquet"


def start(directory: Path, log: str, *more: str) -> subprocess.Popen:
    """The workflow up to the text of train."""
    command = [*COMMAND, TARGET, "--configfile", "own.yaml", *more]
    with open(directory / log, "w") as out:
        return subprocess.Popen(
            command, cwd=directory, env=users_environment(), stdout=out, stderr=out
        )


def ended(directory: Path, log: str, *more: str) -> tuple[int, str]:
    return start(directory, log, *more).wait(600), (directory / log).read_text()


def test_the_same_command_goes_on_after_a_kill_and_is_refused_beside_a_living_one(tmp_path):
    # A corpus that takes seconds.
    lines = "\n".join(line for text in speeches(100) for line in text.split(". "))
    (tmp_path / "train.txt").write_text("".join(f"{n} {lines}\n" for n in range(4)))
    files = {"source": "files", "files": {"train": ["train.txt"]}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(TINY | {"corpus": files}))
    first = start(tmp_path, "first")
    try:
        waited_for((tmp_path / "results/corpus/.corpus-in-progress").exists)
        job = psutil.Process(first.pid).children(recursive=True)
        for process in job:
            process.suspend()
        status, said = ended(tmp_path, "beside")
        assert status and "LockException" in said, said
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert list(tmp_path.glob(".snakemake/locks/*"))
    status, said = ended(tmp_path, "dry-run", "--dry-run")
    assert status == 0 and list(tmp_path.glob(".snakemake/locks/*")), said

    again = start(tmp_path, "again")
    log = tmp_path / "again"
    try:
        waited_for(lambda: "A job of a run that was killed is still at work" in log.read_text())
    finally:
        for process in job:
            process.resume()
    assert again.wait(600) == 0, log.read_text()
    assert log.read_text().count("A run that was killed had left this directory locked") == 1
    assert (tmp_path / TARGET).exists() and not list(tmp_path.glob("results/corpus/.*"))

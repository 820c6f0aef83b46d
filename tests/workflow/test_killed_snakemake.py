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


class Run:
    """The workflow up to the text of train, of a corpus that takes seconds, in `directory`."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.in_progress = directory / "results/corpus/.corpus-in-progress"
        lines = "\n".join(line for text in speeches(100) for line in text.split(". "))
        (directory / "train.txt").write_text("".join(f"{n} {lines}\n" for n in range(4)))
        files = {"source": "files", "files": {"train": ["train.txt"]}}
        (directory / "own.yaml").write_text(yaml.safe_dump(TINY | {"corpus": files}))

    def start(self, log: str, *more: str) -> subprocess.Popen:
        command = [*COMMAND, TARGET, "--configfile", "own.yaml", *more]
        with open(self.directory / log, "w") as out:
            return subprocess.Popen(
                command, cwd=self.directory, env=users_environment(), stdout=out, stderr=out
            )

    def ended(self, log: str, *more: str) -> tuple[int, str]:
        return self.start(log, *more).wait(600), (self.directory / log).read_text()


def test_the_same_command_goes_on_after_a_kill_and_is_refused_beside_a_living_one(tmp_path):
    run = Run(tmp_path)
    first = run.start("first")
    try:
        waited_for(run.in_progress.exists)
        job = psutil.Process(first.pid).children(recursive=True)
        for process in job:
            process.suspend()
        status, said = run.ended("beside")
        assert status and "LockException" in said, said
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert list(tmp_path.glob(".snakemake/locks/*"))
    status, said = run.ended("dry-run", "--dry-run")
    assert status == 0 and list(tmp_path.glob(".snakemake/locks/*")), said

    again = run.start("again")
    log = tmp_path / "again"
    try:
        waited_for(lambda: "A job of a run that was killed is still at work" in log.read_text())
    finally:
        for process in job:
            process.resume()
    assert again.wait(600) == 0, log.read_text()
    assert log.read_text().count("A run that was killed had left this directory locked") == 1
    assert (tmp_path / TARGET).exists() and not list(tmp_path.glob("results/corpus/.*"))

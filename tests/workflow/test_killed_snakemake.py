"""SIGKILL of Snakemake itself, in the middle of a job: the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.conftest import users_environment

from .conftest import ROOT, TINY, speeches

pytestmark = pytest.mark.workflow

COMMAND = [sys.executable, "-m", "snakemake", "--cores=1", "-s", str(ROOT / "Snakefile")]
TARGET = "results/corpus/train.parquet"


def wait_for(condition, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def descendants(parent: int) -> list[int]:
    """The processes that `parent` started, and those that they started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == parent:
            found += [int(entry.parent.name), *descendants(int(entry.parent.name))]
    return found


def test_the_same_command_goes_on_after_a_kill_and_is_refused_beside_a_living_one(tmp_path):
    lines = "\n".join(line for text in speeches(100) for line in text.split(". "))
    (tmp_path / "train.txt").write_text("".join(f"{n} {lines}\n" for n in range(4)))
    files = {"source": "files", "files": {"train": ["train.txt"]}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(TINY | {"corpus": files}))

    def start(log: str, *more: str) -> subprocess.Popen:
        command = [*COMMAND, TARGET, "--configfile", "own.yaml", *more]
        with open(tmp_path / log, "w") as out:
            return subprocess.Popen(
                command, cwd=tmp_path, env=users_environment(), stdout=out, stderr=out
            )

    def ended(log: str, *more: str) -> tuple[int, str]:
        return start(log, *more).wait(600), (tmp_path / log).read_text()

    first = start("first")
    try:
        wait_for((tmp_path / "results/corpus/.corpus-in-progress").exists)
        job = descendants(first.pid)
        for process in job:
            os.kill(process, signal.SIGSTOP)
        status, said = ended("beside")
        assert status and "LockException" in said, said
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert list(tmp_path.glob(".snakemake/locks/*"))
    status, said = ended("dry-run", "--dry-run")
    assert status == 0 and list(tmp_path.glob(".snakemake/locks/*")), said

    again = start("again")
    log = tmp_path / "again"
    try:
        wait_for(lambda: "A job of a run that was killed is still at work" in log.read_text())
    finally:
        for process in job:
            os.kill(process, signal.SIGCONT)
    assert again.wait(600) == 0, log.read_text()
    assert log.read_text().count("A run that was killed had left this directory locked") == 1
    assert (tmp_path / TARGET).exists() and not list(tmp_path.glob("results/corpus/.*"))

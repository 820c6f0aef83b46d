"""SIGKILL of Snakemake itself, in the middle of a job: the same command goes on."""

import signal

import psutil
import pytest

from .conftest import ROOT, TINY, Project, speeches, start

pytestmark = pytest.mark.workflow

TARGET = "results/corpus/train.parquet"
COMMAND = ("--cores=1", "-s", str(ROOT / "Snakefile"), TARGET)


def test_the_same_command_goes_on_after_a_kill_and_is_refused_beside_a_living_one(tmp_path):
    # A corpus that takes seconds.
    lines = "\n".join(line for text in speeches(100) for line in text.split(". "))
    (tmp_path / "train.txt").write_text("".join(f"{n} {lines}\n" for n in range(2)))
    project = Project(tmp_path)
    project.write_config(TINY | {"corpus": {"source": "files", "files": {"train": ["train.txt"]}}})
    run = start(project, *COMMAND, log="first")
    first = run.process
    try:
        run.wait_for((tmp_path / "results/corpus/.corpus-in-progress").exists)
        job = psutil.Process(first.pid).children(recursive=True)
        for process in job:
            process.suspend()
        assert "Another run is at work" in start(project, *COMMAND, log="beside").finished(status=1)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()

    again = start(project, *COMMAND, log="again")
    try:
        again.wait_for(lambda: "A job of a run that was killed is still at work" in again.output())
    finally:
        for process in job:
            process.resume()
    again.finished()
    assert (tmp_path / TARGET).exists() and not list(tmp_path.glob("results/corpus/.*"))

"""A lock that outlives its process is taken away; a living process's is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlm.foundations import abandoned_locks
from mlm.foundations.abandoned_locks import hold_directory

SCRIPTS = Path(__file__).parents[2] / "scripts"
HOLDER = """
import sys, time
from pathlib import Path
from mlm.foundations.abandoned_locks import hold_directory
hold_directory(Path("."), print)
Path(".snakemake/locks").mkdir(exist_ok=True)
Path(".snakemake/locks", sys.argv[1]).write_text("x")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def holder(name: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, name],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert "held\n" in iter(process.stdout.readline, "")
        return process

    yield holder
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def hold(tmp_path, monkeypatch):
    """Hold `tmp_path` from this process: the locks that are left, and what is said."""
    monkeypatch.setattr(abandoned_locks, "_HELD", [])

    def held() -> tuple[list[str], str]:
        said = []
        hold_directory(tmp_path, said.append)
        return sorted(p.name for p in tmp_path.glob(".snakemake/locks/*")), "".join(said)

    return held


def killed(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def test_the_locks_of_two_processes_stay_until_both_have_ended(start, hold):
    first = start("0.output.lock")
    start("1.output.lock")
    killed(first)
    assert hold() == (["0.output.lock", "1.output.lock"], "")


def test_the_lock_of_another_machine_is_left_and_its_name_told(start, hold, tmp_path):
    killed(start("0.output.lock"))
    record = tmp_path / ".snakemake/running-on"
    record.write_text("elsewhere 0000-0000\n" + record.read_text())
    for _ in range(2):  # What another machine locked does not become this machine's.
        left, said = hold()
        assert left and "it may run on elsewhere" in said and "--unlock" in said
        abandoned_locks._HELD.pop().close()


def test_a_lock_from_nobody_knows_where_is_left(hold, tmp_path):
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    (tmp_path / ".snakemake/locks/0.output.lock").touch()
    left, said = hold()
    assert left and "it may run on any machine" in said


def test_without_locks_of_the_kernel_nothing_is_removed(start, hold, monkeypatch):
    killed(start("0.output.lock"))

    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(abandoned_locks, "flock", refused)
    left, said = hold()
    assert left and "Operation not supported" in said and "--unlock" in said


def test_a_directory_that_was_free_forgets_earlier_machines(hold, tmp_path):
    record = tmp_path / ".snakemake/running-on"
    record.parent.mkdir()
    record.write_text("elsewhere 0000-0000\n")
    assert hold() == ([], "") and "elsewhere" not in record.read_text()

"""A lock that outlives its process is taken away; a living process's is not."""

import os
import signal
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
    """Start a process that holds `tmp_path`, with a lock file of the given name as Snakemake's."""
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
        while (line := process.stdout.readline()) and line != "held\n":
            pass
        return process

    yield holder
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def killed(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def locks(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.glob(".snakemake/locks/*"))


@pytest.fixture
def said(monkeypatch):
    monkeypatch.setattr(abandoned_locks, "_HELD", [])
    return []


def test_the_lock_of_a_killed_process_is_removed(start, said, tmp_path):
    killed(start("0.output.lock"))
    assert locks(tmp_path) == ["0.output.lock"]
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == []
    assert said == ["A run that was killed had left this directory locked; the lock was removed."]


def test_the_lock_of_a_living_process_stays(start, said, tmp_path):
    start("0.output.lock")
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == ["0.output.lock"] and said == []


def test_the_lock_of_the_second_of_two_processes_outlives_the_first(start, said, tmp_path):
    """Two Snakemakes may work in one directory on different files, and the first ends."""
    first = start("0.output.lock")
    start("1.output.lock")
    killed(first)
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == ["0.output.lock", "1.output.lock"] and said == []


def test_the_lock_of_another_machine_is_left_and_its_name_told(start, said, tmp_path):
    killed(start("0.output.lock"))
    record = tmp_path / ".snakemake/running-on"
    record.write_text("elsewhere 0000-0000\n" + record.read_text())
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == ["0.output.lock"]
    assert "it may run on elsewhere" in said[0] and "--unlock" in said[0]
    # And again: what another machine locked does not become this machine's.
    for holder in abandoned_locks._HELD:
        holder.close()
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == ["0.output.lock"] and len(said) == 2


def test_a_lock_from_nobody_knows_where_is_left(said, tmp_path):
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    (tmp_path / ".snakemake/locks/0.output.lock").write_text("x")
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == ["0.output.lock"] and "it is not known where" in said[0]


def test_without_locks_of_the_kernel_nothing_is_removed(start, said, tmp_path, monkeypatch):
    killed(start("0.output.lock"))

    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(abandoned_locks, "flock", refused)
    hold_directory(tmp_path, said.append)
    assert locks(tmp_path) == ["0.output.lock"]
    assert "Operation not supported" in said[0] and "--unlock" in said[0]


def test_a_directory_that_was_free_forgets_earlier_machines(said, tmp_path):
    record = tmp_path / ".snakemake/running-on"
    record.parent.mkdir()
    record.write_text("elsewhere 0000-0000\n")
    hold_directory(tmp_path, said.append)
    assert "elsewhere" not in record.read_text() and said == []

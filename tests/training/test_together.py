"""Several processes train one run together: the same losses, kills, and what is refused."""

import csv
import json
import random
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest
from small_run import result, small_job, small_results
from tests.conftest import users_environment

from mlm.foundations.atomic import read_json
from mlm.training.processes import COORDINATOR, INDEX
from mlm.training.state_locks import file_lock

# Each of them starts processes that import and compile: run with -m slow.
pytestmark = pytest.mark.slow

JOBS = Path(__file__).parents[2] / "scripts" / "jobs"

#: What the rule's script does with a request: in this process, or in several that it starts.
JOB = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pretrain
from mlm.foundations.errors import MlmError
try:
    pretrain.train_alone_or_together(json.loads(sys.argv[2]))
except MlmError as error:
    print("MlmError:", error, file=sys.stderr)
    sys.exit(3)
"""

#: Programs that a process compiles are kept for those after it: a third of their time. Each layout
#: has programs of its own.
COMPILED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


@pytest.fixture(scope="module")
def root(root):
    COMPILED["JAX_COMPILATION_CACHE_DIR"] = str(root / "compiled")
    return root


def layout(processes: int, devices: int, **others) -> dict:
    """Overrides: so many processes with so many devices each; all add up alike."""
    here = {"processes": processes, "virtual_replicas": devices, "cpu_threads": 4}
    pretraining = {"engine": "jax", "per_replica_batch_size": 2, "steps": 20, "log_every": 1}
    return {"accelerator": here | others, "pretraining": pretraining}


def request_of(root: Path, name: str, overrides: dict) -> dict:
    """What rule `pretrain` asks for of a small run."""
    settings, files = small_job(root, name, overrides)
    return {
        "config": settings.model_dump(),
        "files": asdict(files),
        "results": asdict(small_results(root, name)),
        "preflight": None,
    }


def job(request: dict, log: Path, environment=None):
    """The job under way, its output in `log`."""
    with log.open("a") as output:
        return subprocess.Popen(
            [sys.executable, "-c", JOB, str(JOBS), json.dumps(request)],
            env=users_environment() | COMPILED | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def trained(root: Path, name: str, overrides: dict, status: int = 0) -> str:
    """Train the run to its end, good or bad; the output."""
    log = root / f"{name}.log"
    process = job(request_of(root, name, overrides), log)
    process.wait(300)
    assert process.returncode == status, log.read_text()[-4000:]
    return log.read_text()


def losses(root: Path, name: str) -> np.ndarray:
    with open(root / "runs" / name / "training.csv") as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file)])


def whole(root: Path, processes: int, devices: int) -> str:
    """The name of a run of that layout, left alone, which is trained if it was not before."""
    name = f"whole-{processes}-{devices}"
    if not (root / "runs" / name / "training.json").exists():
        trained(root, name, layout(processes, devices))
    return name


def test_processes_and_devices_divide_a_batch_as_they_may_and_the_losses_stay(root):
    """A sample that another process masked otherwise, or left out, would change them at once."""
    one, two = whole(root, 1, 4), whole(root, 2, 2)
    assert len(losses(root, one)) == 20
    np.testing.assert_allclose(losses(root, two), losses(root, one), rtol=2e-6)
    found = read_json(root / "runs" / two / "training.json")
    assert (found["replicas"], found["processes"]) == (4, 2)
    # The state's directory holds what one process leaves there, and no more.
    left = {path.name for path in (root / "state" / two).glob("*/*")}
    assert left == {"lock", "step-00000015", "step-00000020"}


def members_of(process: subprocess.Popen) -> list[psutil.Process]:
    """The processes that the job has started, the one that leads first."""
    found = psutil.Process(process.pid).children()
    return sorted(found, key=lambda member: member.environ()[INDEX])


def until(process: subprocess.Popen, log: Path, condition) -> None:
    end = time.monotonic() + 240
    while not condition():
        assert process.poll() is None and time.monotonic() < end, log.read_text()[-4000:]
        time.sleep(0.02)


def test_kills_of_one_process_at_random_moments_change_nothing(root):
    """The others end with it, in words, and the same command resumes."""
    overrides = layout(2, 1)
    overrides["pretraining"] |= {"per_replica_batch_size": 4, "steps": 60, "log_every": 10}
    overrides["pretraining"]["checkpoint"] = {"every": 2}
    moments, log = random.Random(5), root / "killed.log"

    def newest() -> int:
        states = (root / "state" / "killed").glob("*/step-????????/complete.json")
        return max((int(s.parent.name[5:]) for s in states), default=-1)

    for number, step in enumerate((0, 14)):
        # Of its own: what it resumes from is there before it begins.
        least = max(step, newest())
        process = job(request_of(root, "killed", overrides), log)
        until(process, log, lambda least=least: newest() > least)
        time.sleep(moments.random() / 2)
        victim = moments.randrange(2)
        members_of(process)[victim].kill()
        process.wait(60)
        said = log.read_text()
        assert process.returncode == 3, said[-4000:]
        lost = f"process {victim} -9"
        assert said.count("MlmError:") == number + 1
        assert lost in said.split("MlmError:")[-1]
    trained(root, "killed", overrides)
    goes_on = re.findall(r"killed: resumes from step (\d+)", log.read_text())
    assert len(goes_on) == 2 and sorted(map(int, goes_on)) == list(map(int, goes_on))
    trained(root, "left-alone", overrides)
    assert result(root, "killed") == result(root, "left-alone")


def test_a_signal_to_the_job_saves_a_state_and_ends_all(root):
    overrides = layout(2, 2)
    overrides["pretraining"] |= {"steps": 5000, "checkpoint": {"every": 5000}}
    log = root / "stopped.log"
    process = job(request_of(root, "stopped", overrides), log)
    until(process, log, lambda: "step 1/5000" in log.read_text())
    process.terminate()
    process.wait(60)
    steps = re.findall(r"^Stopped by SIGTERM after step (\d+) of 5000", log.read_text(), re.M)
    step, _ = steps
    assert steps == [step, step]
    states = [path.parent.name for path in (root / "state/stopped").glob("*/*/complete.json")]
    assert states == [f"step-{int(step):08d}"]
    # Another job on the same directory, while this test holds it as a training does.
    with file_lock(str(next((root / "state" / "stopped").iterdir()))):
        said = trained(root, "stopped", overrides, status=3)
    assert "is in use: another process trains this very run" in said


@contextmanager
def on_hosts(root: Path, requests: list[dict], **others):
    """The same job once for each host, started by nobody but its launcher, in a row."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    started = []
    for index, request in enumerate(requests):
        given = {COORDINATOR: address, INDEX: str(index)}
        started.append(job(request, root / f"host-{index}.log", environment=given | others))
    try:
        yield started
    finally:
        for process in started:
            process.kill()


HOSTS = layout(2, 2)


def test_on_hosts_each_command_writes_the_same_results(root):
    """And those of two processes that one job has started here."""
    requests = [request_of(root, name, HOSTS) for name in ("host-0", "host-1")]
    for request in requests:
        request["config"]["name"] = "hosts"
    with on_hosts(root, requests) as started:
        ended = [process.wait(240) for process in started]
    assert ended == [0, 0], [(root / f"host-{i}.log").read_text()[-2000:] for i in (0, 1)]
    assert all("hosts: step 20/20" in (root / f"host-{i}.log").read_text() for i in (0, 1))
    alone = result(root, whole(root, 2, 2))
    assert result(root, "host-0") == result(root, "host-1") == alone
    cards = [(root / "runs" / f"host-{i}" / "training.json").read_bytes() for i in (0, 1)]
    assert cards[0] == cards[1]


def test_hosts_of_other_settings_are_refused_before_the_first_step(root):
    other = {"pretraining": HOSTS["pretraining"] | {"seed": 7}}
    requests = [request_of(root, "differs", o) for o in (HOSTS, HOSTS | other)]
    with on_hosts(root, requests) as started:
        assert [process.wait(120) for process in started] == [3, 3]
    for index in (0, 1):
        said = (root / f"host-{index}.log").read_text()
        assert "process 1: settings, configuration" in said
    assert not (root / "state" / "differs").exists()

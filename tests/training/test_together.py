"""Several processes train one run together: the same losses, kills, and what is refused."""

import csv
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest
from small_run import LENGTH, result, small_job
from tests.conftest import waited_for

from mlm.foundations.atomic import read_json
from mlm.training.processes import COORDINATOR, INDEX
from mlm.training.saved_states import StateDirectory

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


#: Of 40 steps: 20 of 4 samples, 10 of 4 rows of 2, and 10 of 2 rows of 4 with fewer masks.
PHASES = [
    {"share": 0.5},
    {"share": 0.25, "sequence_length": 2 * LENGTH, "per_replica_batch_size": 2},
    {"share": 0.25, "sequence_length": 4 * LENGTH, "per_replica_batch_size": 1}
    | {"mlm_probability": 0.15},
]


def layout(processes: int, devices: int, **pretraining) -> dict:
    """Overrides: so many processes with so many devices each; all add up alike."""
    accelerator = {"processes": processes, "virtual_replicas": devices, "cpu_threads": 4}
    few = {"engine": "jax", "per_replica_batch_size": 2, "steps": 20, "log_every": 1}
    return {"accelerator": accelerator, "pretraining": few | pretraining}


def job(root: Path, name: str, overrides: dict, log: str | None = None, run: str = "", **variables):
    """The job of rule `pretrain` under way, its output in a log; `run` is the run's name."""
    settings, files = small_job(root, name, overrides)
    request = {
        "config": settings.model_dump() | {"name": run or name},
        "files": asdict(files),
        "results": str(root / "runs" / name),
    }
    with (root / f"{log or name}.log").open("a") as output:
        return subprocess.Popen(
            [sys.executable, "-c", JOB, str(JOBS), json.dumps(request)],
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def printed(root: Path, name: str) -> str:
    return (root / f"{name}.log").read_text()


def trained(root: Path, name: str, overrides: dict, status: int = 0) -> str:
    """Train the run to its end, good or bad; the output."""
    process = job(root, name, overrides)
    process.wait(300)
    assert process.returncode == status, printed(root, name)[-4000:]
    return printed(root, name)


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
    one, two = whole(root, 1, 2), whole(root, 2, 1)
    assert len(losses(root, one)) == 20
    np.testing.assert_allclose(losses(root, two), losses(root, one), rtol=2e-6)
    found = read_json(root / "runs" / two / "training.json")
    assert (found["replicas"], found["arithmetic"]["processes"]) == (2, 2)
    # The state's directory holds what one process leaves there, and no more.
    left = {path.name for path in (root / "state" / two).glob("*/*")}
    assert left == {"lock", "step-00000015.state", "step-00000020.state"}


def test_kills_of_one_process_at_random_moments_in_any_phase_change_nothing(root):
    """The others end with it, in words, and the same command resumes."""
    overrides = layout(2, 1, steps=40, log_every=10, checkpoint={"every": 2}, phases=PHASES)
    moments, resumed = random.Random(5), 0

    def newest() -> int:
        states = (root / "state" / "killed").glob("*/step-*.state")
        return max((int(s.stem[5:]) for s in states), default=-1)

    for step in (0, 20):
        # Of its own: what it resumes from is there before it begins.
        least = max(step, newest())
        process = job(root, "killed", overrides)
        waited_for(lambda least=least: newest() > least, 240, lambda: printed(root, "killed"))
        time.sleep(moments.random() / 2)
        members, victim = psutil.Process(process.pid).children(), moments.randrange(2)
        sorted(members, key=lambda member: member.environ()[INDEX])[victim].kill()
        assert process.wait(60) == 3
        assert f"process {victim} -9" in printed(root, "killed").split("MlmError:")[-1]
    resumed = re.findall(r"resumes from step (\d+)", trained(root, "killed", overrides))
    assert len(resumed) == 2 and sorted(map(int, resumed)) == list(map(int, resumed))
    trained(root, "left-alone", overrides)
    assert result(root, "killed") == result(root, "left-alone")
    trained(root, "alone", layout(1, 2, steps=40, log_every=10, phases=PHASES))
    np.testing.assert_allclose(losses(root, "killed"), losses(root, "alone"), rtol=1e-5)


def test_a_signal_to_the_job_saves_a_state_and_ends_all(root):
    overrides = layout(2, 1, steps=5000, checkpoint={"every": 5000})
    process = job(root, "stopped", overrides)
    begun = "step 1/5000"
    waited_for(lambda: begun in printed(root, "stopped"), 240, lambda: printed(root, "stopped"))
    process.terminate()
    assert process.wait(60) == 3
    pattern = r"^Stopped by SIGTERM after step (\d+) of 5000"
    step, other = re.findall(pattern, printed(root, "stopped"), re.M)
    states = [path.stem for path in (root / "state/stopped").glob("*/*.state")]
    assert step == other and states == [f"step-{int(step):08d}"]
    # Another job on the same directory, while this test holds it as a training does.
    with StateDirectory(str(next((root / "state" / "stopped").iterdir())), None).locked():
        assert "is in use" in trained(root, "stopped", overrides, status=3)


def on_hosts(root: Path, names: tuple[str, str], run: str, *overrides: dict) -> list[int]:
    """The same job once for each host, started by nobody but its launcher; how they end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{listener.getsockname()[1]}"
    started = [
        job(root, name, one, f"host-{i}-{run}", run, **{COORDINATOR: place, INDEX: str(i)})
        for i, (name, one) in enumerate(zip(names, overrides, strict=True))
    ]
    return [process.wait(240) for process in started]


def test_on_hosts_each_command_writes_the_same_results(root):
    """And those of two processes that one job has started here."""
    names = ("host-0", "host-1")
    ended = on_hosts(root, names, "hosts", layout(2, 1), layout(2, 1))
    assert ended == [0, 0], printed(root, "host-0-hosts")[-2000:]
    alone = result(root, whole(root, 2, 1))
    assert result(root, "host-0") == result(root, "host-1") == alone
    cards = [(root / "runs" / name / "training.json").read_bytes() for name in names]
    assert cards[0] == cards[1]


def test_hosts_of_other_settings_are_refused_before_the_first_step(root):
    overrides = layout(2, 1), layout(2, 1, seed=7)
    assert on_hosts(root, ("differs", "differs"), "differs", *overrides) == [3, 3]
    for index in (0, 1):
        assert "process 1: settings, configuration" in printed(root, f"host-{index}-differs")
    assert not (root / "state" / "differs").exists()

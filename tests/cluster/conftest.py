"""Services that a test starts and stops itself, and environments with the plugins for them."""

import copy
import functools
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from tests.cluster.slurm_cluster import PACKAGES, SlurmCluster, missing_programs
from tests.cluster.storage_server import StorageServer
from tests.conftest import not_here
from tests.workflow.conftest import (
    ROOT,
    TINY,
    Project,
    copy_of_the_repository,
    speeches,
    start,
    write_pairs,
)

#: Few steps, each of which saves a state: a test can stop the training half-way.
SMALL = copy.deepcopy(TINY)
SMALL["shards"]["count"] = {"train": 2, "validation": 1, "test": 1}
SMALL["pretraining"] |= {"steps": 120, "log_every": 30, "checkpoint": {"every": 2}}
SMALL["pretraining"]["validation"] = {"every": 60, "samples": 16}


def write_small_data(place: Path) -> None:
    """A speech for each file of the tiny corpus."""
    write_pairs(place)
    for name, text in zip(("train-a", "train-b", "validation", "test"), speeches(4), strict=True):
        (place / "data" / f"{name}.txt").write_text(text.replace(". ", ".\n"))


#: What `start` runs for jobs on a cluster: Snakemake that asks every second how they do. Slurm's
#: executor waits ten seconds longer each time, up to three minutes, and no option changes that.
IMPATIENT = (
    "-c",
    """
import asyncio, sys
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
RemoteExecutor.sleep = lambda self: asyncio.sleep(1)
main(sys.argv[1:])
""",
)


@pytest.fixture(scope="session")
def python_with():
    """Makes an environment: this one, and the plugins of envs/requirements-{name}.txt."""

    @functools.cache
    def make(name: str) -> str:
        place = Path(directory) / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        # What this environment holds is seen there too, and not installed again. The executor of
        # this repository only beside what it extends: Snakemake imports every plugin that it finds.
        here = Path(sysconfig.get_path("purelib"))
        seen = [here, *((ROOT / "plugins").glob("*") if name == "gke" else [])]
        there = place / here.relative_to(sys.prefix)
        (there / "parent.pth").write_text("\n".join(map(str, seen)) + "\n")
        python, lock = str(place / "bin" / "python"), ROOT / "envs" / f"requirements-{name}.txt"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
        ran = subprocess.run([*pip, "--require-hashes", "-r", lock], capture_output=True, text=True)
        if ran.returncode:
            not_here(f"{lock.name} cannot be installed: {ran.stderr[-1000:]}")
        return python

    with tempfile.TemporaryDirectory(prefix="environments-") as directory:
        yield make


@pytest.fixture(scope="session")
def local_run(tmp_path_factory) -> Project:
    """The small workflow run to its report on this machine: what the others compare with."""
    project = copy_of_the_repository(tmp_path_factory.mktemp("local"))
    project.write_config(SMALL)
    start(project, "--cores", "2").finished()
    return project


@pytest.fixture(scope="session")
def slurm():
    """A real Slurm with one node and the partitions cpu and tpu."""
    if missing := missing_programs():
        not_here(f"no {', '.join(missing)} here: apt-get install {PACKAGES}")
    # A short path: that of a socket may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory:
        cluster = SlurmCluster(Path(directory))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def storage_server(python_with, tmp_path_factory):
    log = tmp_path_factory.mktemp("storage") / "server.log"
    server = StorageServer(python_with("gcs-test"), log)
    server.start()
    yield server
    server.stop()

"""The workflow through `--profile profiles/slurm` on a real Slurm."""

import copy
import re

import pytest

from tests.cluster.conftest import IMPATIENT, SMALL
from tests.workflow.conftest import ROOT, Project, Run, copy_of_the_repository, start

# Beside the workflow, a service of its own: run with -m slow.
pytestmark = [pytest.mark.workflow, pytest.mark.slow]

#: Ask Slurm sooner than a real cluster likes to be asked.
QUICK = ("--slurm-init-seconds-before-status-checks", "1")


@pytest.fixture(scope="session")
def python(python_with):
    return python_with("slurm")


@pytest.fixture(scope="session")
def on_slurm(slurm, python):
    def run(project: Project, *arguments: str) -> Run:
        profile = ("--profile", str(ROOT / "profiles" / "slurm"), *QUICK)
        how = {"python": python, "program": IMPATIENT, "environment": slurm.environment}
        return start(project, *profile, *arguments, **how)

    return run


def jobs(slurm, state: str) -> dict[str, str]:
    """Ids of the jobs in `state`, by the rule that they run."""
    lines = slurm.run("squeue", "-h", "--states", state, "-o", "%i|%k").splitlines()
    found = (line.split("|", 1) for line in lines)
    return {comment.removeprefix("rule_").split("_wildcards")[0]: id for id, comment in found}


def test_a_cancelled_and_a_requeued_training_end_in_the_bytes_of_a_local_run(
    slurm, on_slurm, local_run, tmp_path
):
    project = copy_of_the_repository(tmp_path)
    project.write_config(SMALL)
    run = on_slurm(project)

    def training_but(former: str | None) -> str | None:
        job = jobs(slurm, "RUNNING").get("pretrain")
        return job if job != former else None

    run.wait_for(lambda: list((tmp_path / "state").glob("base/*/step-*.state")))
    cancelled = training_but(None)
    slurm.run("scancel", cancelled)
    # Snakemake tries it again as another job, which Slurm then takes away and queues again.
    requeued = run.wait_for(lambda: training_but(cancelled))
    log = tmp_path / "logs" / "pretrain" / "base.log"
    # Its log is made anew with each attempt.
    run.wait_for(lambda: log.exists() and "resumes from step" in log.read_text())
    slurm.run("scontrol", "requeue", requeued)
    output = run.finished()
    assert cancelled != requeued
    assert "CANCELLED" in output
    assert project.digests() == local_run.digests()
    # The shards were one job of the cluster.
    assert len(set(re.findall(r"slurm_logs/group_shards_shard/\d+\.log", output))) == 1


def test_two_tasks_of_srun_end_in_the_bytes_of_two_processes_here(on_slurm, tmp_path):
    together = copy.deepcopy(SMALL)
    together["pretraining"] |= {"engine": "jax", "steps": 20}
    together["accelerator"] = {"processes": 2}
    projects, model = {}, "results/runs/base/model/model.safetensors"
    for start_by in ("here", "srun"):
        projects[start_by] = copy_of_the_repository(tmp_path / start_by)
        projects[start_by].write_config(together)
    start(projects["here"], "--cores", "2", model).finished()
    tasks = ("--set-resources", "pretrain:mpi=srun", "pretrain:tasks=2")
    on_slurm(projects["srun"], model, *tasks).finished()
    found = {name: project.digests() for name, project in projects.items()}
    assert found["srun"] == found["here"] and model.removeprefix("results/") in found["here"]
    for start_by, project in projects.items():
        log = (project.path / "logs" / "pretrain" / "base.log").read_text()
        assert "Mesh with 2 replica(s)" in log and log.count("step 20/20") == 1
        # Tasks meet at a node that others reach.
        assert (" processes at 127.0.0.1" in log) == (start_by == "here")

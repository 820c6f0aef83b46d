"""The workflow through `--profile profiles/slurm` on a real Slurm."""

import copy
import re
import sys

import pytest

from tests.cluster.conftest import IMPATIENT, SMALL, Run, start
from tests.workflow.conftest import ROOT, Project, copy_of_the_repository, speeches

# Beside the workflow, a service of its own: run with -m slow.
pytestmark = [pytest.mark.workflow, pytest.mark.slow]

#: Ask Slurm sooner than a real cluster likes to be asked.
QUICK = ("--slurm-init-seconds-before-status-checks", "1")


@pytest.fixture(scope="session")
def python(python_with):
    return python_with("slurm")


@pytest.fixture(scope="session")
def on_slurm(slurm, python):
    """Starts snakemake on a project, with jobs of Slurm."""

    def run(project: Project, *arguments: str) -> Run:
        profile = ("--profile", str(ROOT / "profiles" / "slurm"), *QUICK)
        return start(
            *(project, python, *profile, *arguments),
            environment=slurm.environment,
            program=IMPATIENT,
        )

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

    run.wait_for(lambda: list((tmp_path / "state").glob("base/*/step-*/complete.json")))
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


def test_a_cancelled_part_of_a_corpus_is_read_again_to_the_bytes_of_one_job(
    slurm, on_slurm, python, tmp_path
):
    lines = [line for text in speeches(100) for line in text.split(". ")]
    # Numbered, so that a part takes seconds, in which it can be cancelled.
    text = "".join(f"{n} {line}\n" for n in range(8) for line in lines)
    targets = [f"results/corpus/{split}.json" for split in ("train", "validation", "test")]
    projects = {}
    for parts in (1, 3):
        (tmp_path / str(parts)).mkdir()
        projects[parts] = project = copy_of_the_repository(tmp_path / str(parts))
        (project.path / "data" / "train-c.txt").write_text(text, encoding="utf-8")
        project.write_config(SMALL | {"corpus": SMALL["corpus"] | {"parts": parts}})
    start(projects[1], python, "--cores", "2", *targets).finished()
    run = on_slurm(projects[3], *targets)
    slurm.run("scancel", run.wait_for(lambda: jobs(slurm, "RUNNING").get("corpus_read")))
    assert "CANCELLED" in run.finished()
    assert not (projects[3].path / "results/corpus/parts").exists()
    assert projects[1].digests() == projects[3].digests()


def test_two_tasks_of_srun_end_in_the_bytes_of_two_processes_here(on_slurm, tmp_path):
    together = copy.deepcopy(SMALL)
    together["pretraining"] |= {"engine": "jax", "steps": 20}
    projects, model = {}, "results/runs/base/model/model.safetensors"
    for start_by in ("here", "srun"):
        together["accelerator"] = {"processes": 2, "start": start_by}
        projects[start_by] = copy_of_the_repository(tmp_path / start_by)
        projects[start_by].write_config(together)
    start(projects["here"], sys.executable, "--cores", "2", model).finished()
    tasks = ("--set-resources", "pretrain:mpi=srun", "pretrain:tasks=2")
    on_slurm(projects["srun"], model, *tasks).finished()
    found = {name: project.digests() for name, project in projects.items()}
    assert found["srun"] == found["here"] and model.removeprefix("results/") in found["here"]
    for project in projects.values():
        log = (project.path / "logs" / "pretrain" / "base.log").read_text()
        assert "Mesh with 2 replica(s)" in log and log.count("step 20/20") == 1


@pytest.fixture
def slow(tmp_path) -> Project:
    """A workflow of one job that takes ten minutes and no CPU."""
    rule = 'rule slow:\n    output: "done.txt"\n    shell: "sleep 600 && touch {output}"\n'
    (tmp_path / "Snakefile").write_text(rule)
    (tmp_path / "tiny.yaml").write_text("{}")
    return Project(tmp_path)


def test_a_job_over_its_time_limit_is_reported_in_words(slurm, on_slurm, slow):
    run = on_slurm(slow, "--retries", "0", "--set-resources", "slow:runtime=1")
    job = run.wait_for(lambda: jobs(slurm, "RUNNING").get("slow"))
    assert slurm.run("squeue", "-h", "-j", job, "-o", "%l").strip() == "1:00"
    # Its work has begun, and its minute is over at once.
    run.wait_for(lambda: f"{job}.0" in slurm.run("squeue", "-h", "--steps", "-j", job))
    slurm.run("scontrol", "update", f"JobId={job}", "EndTime=now")
    output = run.finished(status=1)
    assert "SLURM status is: 'TIMEOUT'" in output
    # The job's own log, shown with the error, has Slurm's words.
    assert "DUE TO TIME LIMIT" in output + "".join(
        log.read_text() for log in slow.path.rglob("slurm_logs/**/*.log")
    )


def test_an_unknown_partition_is_named(on_slurm, slow):
    elsewhere = ("--set-resources", "slow:slurm_partition='nowhere'")
    output = on_slurm(slow, "--retries", "0", *elsewhere).finished(status=1)
    assert "invalid partition specified: nowhere" in output

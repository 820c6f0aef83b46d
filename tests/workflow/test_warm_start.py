"""A run that begins with a checkpoint depends on the content of its files."""

import copy
import json
import os
import re
import shutil

import pytest

from tests.workflow.conftest import TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def trained_anew(project) -> list[str]:
    jobs = re.split(r"^rule ", project.dry_run(), flags=re.M)[1:]
    named = (re.search(r"^    wildcards: run=(.*)", job, re.M) for job in jobs)
    return sorted(
        run[1] for job, run in zip(jobs, named, strict=True) if job.startswith("pretrain:")
    )


def test_an_edited_checkpoint_trains_again_what_began_with_it_and_a_date_nothing(copied):
    project, config = copied, copy.deepcopy(TINY)
    config["pretraining"] |= {"engine": "jax"}
    # Its sizes are for the run from scratch alone.
    scratch = {"model": {"family": "bert", "config": config["model"].pop("config")}}
    project.write_config(config | {"runs": {"scratch": scratch}})
    project.snakemake("results/runs/scratch/model/config.json")
    checkpoint = project.path / "encoder"
    shutil.copytree(project.path / "results/runs/scratch/model", checkpoint)
    adapted = {"model": {"start_from": "encoder"}}
    project.write_config(config | {"runs": {"scratch": scratch, "adapted": adapted}})
    assert trained_anew(project) == ["adapted"]
    project.snakemake()
    summary = json.loads((project.path / "results/runs/adapted/training.json").read_text())
    assert summary["warm_start"]["checkpoint"] == "encoder"
    page = (project.path / "results/report.html").read_text().replace("<wbr>", "")
    assert summary["warm_start"]["sha256"] in page and "warm start: validation loss" in page
    asked = ["--run", "adapted", "--json", "--configfile", "tiny.yaml", "--", "Fellow citizens"]
    answer = json.loads(project.python("scripts/ask.py", *asked).stdout)
    assert "What it was trained on is not known here" in " ".join(answer["notes"])
    assert project.would_run() == set()

    # As a kill in the next training leaves it: no further job takes the model before.
    run = project.path / "results/runs/adapted"
    for file in ("trained/training.json", "evaluation.json"):
        (run / file).rename(run / f"{file}.gone")
    assert project.would_run(f"{run.relative_to(project.path)}/evaluation.json") > {"pretrain"}
    for file in ("trained/training.json", "evaluation.json"):
        (run / f"{file}.gone").rename(run / file)

    for file in checkpoint.iterdir():
        os.utime(file, (0, 0))
    assert project.would_run() == set()
    with project.edited("encoder/config.json", by=lambda content: content + b"\n", date="same"):
        assert trained_anew(project) == ["adapted"]
    # Only a run from scratch may have sizes of its own.
    project.write_config(
        config | {"runs": {"adapted": {"model": adapted["model"] | scratch["model"]}}}
    )
    text = project.snakemake(check=False).stdout
    assert "model.config.hidden_size" in text and "model.start_from decides it" in text

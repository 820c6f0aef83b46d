"""Runs that continue another, without some of its documents or with another schedule."""

import copy
import json

import pytest
import yaml

from mlm.foundations.digests import file_sha256
from mlm.foundations.rerun_reasons import planned_jobs
from tests.workflow.conftest import TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def weights(project, *runs: str) -> list[str]:
    models = (project.path / f"results/runs/{run}/model" for run in runs)
    return [file_sha256(model / "model.safetensors") for model in models]


def jobs(project) -> set[tuple[str, str]]:
    planned = planned_jobs(project.dry_run())
    return {(job.rule, job.wildcards.removeprefix("run=")) for job in planned if job.rule != "all"}


def test_a_document_is_forgotten_by_going_on_from_before_its_first_step(copied):
    project = copied
    config = copy.deepcopy(TINY)
    config["model"]["initialisation"] = {"embeddings": "random"}
    config["pretraining"] |= {"checkpoint": {"every": 4, "keep": None}}
    project.write_config(config)
    project.snakemake()

    # One that is first used when there is a state already.
    for number in range(0, 400, 3):
        what = f"document:{number}"
        asked = ["--forget", what, "--json", "--configfile", "tiny.yaml"]
        answer = json.loads(project.python("scripts/ask.py", *asked).stdout)
        if (answer["first_step"] or 0) > 4:
            break
    assert answer["go_on_from"][0] == "base" and answer["go_on_from"][1] in (4, 8)
    runs = yaml.safe_load(answer["configuration"])["runs"]
    runs["whole"] = {"pretraining": {"forget": [what]}}
    project.write_config(config | {"runs": runs})
    new = {"holes", "pretrain", "keep_model", "evaluate", "fill_mask", "masked_samples", "asked"}
    expected = {(rule, run) for rule in new for run in ("without", "whole")} | {("report", "")}
    assert jobs(project) == expected
    project.snakemake()
    assert "continues run base" in (project.path / "logs/pretrain/without.log").read_text()
    base, without, whole = weights(project, "base", "without", "whole")
    assert without == whole != base
    page = (project.path / "results" / "report.html").read_text()
    assert "without was trained without 1 document of the train split" in page
    assert "base was trained without" not in page
    assert project.would_run() == set()

    # Another list is another training of that run, and of no other.
    runs["whole"]["pretraining"]["forget"].append("document:1")
    project.write_config(config | {"runs": runs})
    assert jobs(project) == {(rule, run) for rule, run in expected if run != "without"}

"""`snakemake finetune` on a CSV of one's own, from the pretrained model to the report."""

import csv
import json
import shutil
import sys

import pytest

from .conftest import ROOT, TINY, Project

sys.path.append(str(ROOT / "tests" / "finetuning"))
from tiny_task import write_csv

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def labelled(built, tmp_path_factory) -> Project:
    """A copy of the built workflow, where fine-tuning leaves its files."""
    place = tmp_path_factory.mktemp("labelled") / "project"
    shutil.copytree(built.path, place, symlinks=True)
    return Project(place)


def describe(labelled, task: str) -> None:
    """A CSV of 200 rows and the configuration for it."""
    write_csv(labelled.path / "labels.csv", 200, classes=task == "classification")
    finetune = {
        "enabled": True,
        "task": task,
        "data": {"source": "csv", "file": "labels.csv"},
        "folds": 2,
        "epochs": 1,
        "max_length": 16,
        "resamples": 100,
    }
    labelled.write_config(TINY | {"finetune": finetune})


def test_fine_tuning_is_a_target_of_the_workflow_and_trains_no_model_again(labelled):
    describe(labelled, "regression")
    stages = {f"finetune_{stage}" for stage in ("data", "fold", "ridge", "merge")}
    assert labelled.would_run("finetune") == stages | {"finetune", "report"}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_csv_in_the_commonlit_layout_goes_through_to_the_report(labelled, task):
    describe(labelled, task)
    ran = labelled.snakemake("finetune")
    assert "rule finetune_fold" in ran.stdout and "rule pretrain" not in ran.stdout
    place = labelled.path / "results" / "runs" / "base" / "finetune"
    metrics = json.loads((place / "metrics.json").read_text())
    with open(place / "oof.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 200
    assert metrics["score"] == {"regression": "rmse", "classification": "accuracy"}[task]
    assert set(metrics["models"]) == {"pretrained", "random", "tfidf_ridge"}
    page = (labelled.path / "results" / "report.html").read_text()
    assert '<section id="finetune"' in page
    assert labelled.would_run("finetune") == set()

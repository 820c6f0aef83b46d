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


@pytest.mark.parametrize(
    "task", ["regression", pytest.param("classification", marks=pytest.mark.slow)]
)
def test_a_csv_in_the_commonlit_layout_goes_through_to_the_report(labelled, task):
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

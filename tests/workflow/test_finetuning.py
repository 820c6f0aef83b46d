"""`snakemake finetune` on a CSV of one's own, from the pretrained model to the report."""

import sys

import pytest

from .conftest import ROOT, TINY, Project

sys.path.append(str(ROOT / "tests" / "finetuning"))
from tiny_task import write_csv

pytestmark = pytest.mark.workflow


def describe(project: Project, task: str) -> None:
    """A CSV of 200 rows and the configuration for it."""
    write_csv(project.path / "labels.csv", 200, classes=task == "classification")
    finetune = {"enabled": True, "task": task, "data": {"source": "csv", "file": "labels.csv"}}
    finetune |= {"folds": 2, "epochs": 1, "max_length": 16, "resamples": 100}
    project.write_config(TINY | {"finetune": finetune})


def test_fine_tuning_is_a_target_of_the_workflow_and_trains_no_model_again(copied):
    describe(copied, "regression")
    stages = {f"finetune_{stage}" for stage in ("data", "fold", "ridge", "merge")}
    assert copied.would_run("finetune") == stages | {"finetune", "report"}

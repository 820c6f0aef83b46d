"""`snakemake finetune` on a CSV of one's own, from the pretrained model to the report."""

import sys

import pytest

from .conftest import ROOT, TINY

sys.path.append(str(ROOT / "tests" / "finetuning"))
from tiny_task import write_csv

pytestmark = pytest.mark.workflow


def test_fine_tuning_is_a_target_of_the_workflow_and_trains_no_model_again(copied):
    write_csv(copied.path / "labels.csv", 200, classes=False)
    data = {"source": "csv", "file": "labels.csv"}
    finetune = {"enabled": True, "task": "regression", "data": data, "max_length": 16}
    copied.write_config(TINY | {"finetune": finetune})
    stages = {f"finetune_{stage}" for stage in ("data", "fold", "ridge", "merge")}
    assert copied.would_run("finetune") == stages | {"finetune", "report"}

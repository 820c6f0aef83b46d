"""ModernBERT, with attention within documents, through every stage."""

import csv
import json

import pytest
from tiny_task import write_csv

from .conftest import TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_modernbert_goes_from_text_to_preflight_fine_tuning_and_report(copied):
    project, place = copied, copied.path
    write_csv(place / "labels.csv", 200, classes=False)
    finetune = {"enabled": True, "task": "regression"}
    finetune |= {"data": {"source": "csv", "file": "labels.csv"}, "folds": 2, "epochs": 1}
    config = TINY | {
        "model": {
            **TINY["model"],
            "family": "modernbert",
            "initialisation": {"attention": "standard"},
        },
        "pretraining": TINY["pretraining"] | {"attend": "document"},
        "preflight": {"targets": ["v5e:2x2"]},
        "finetune": finetune | {"max_length": 16},
    }
    project.write_config(config)
    ran = project.snakemake("preflight", "finetune", "all")
    assert "v5e:2x2  fits" in ran.stdout
    run = place / "results" / "runs" / "base"
    verdict = (run / "preflight.json").read_bytes()
    with project.edited(run / "preflight.json", by=lambda content: None):
        project.snakemake("--", "results/runs/base/preflight.json")
        assert (run / "preflight.json").read_bytes() == verdict
    training = json.loads((run / "training.json").read_text())
    assert (training["model_type"], training["engine"]) == ("modernbert", "tensorflow")
    assert json.loads(verdict)["passed"] is True
    assert json.loads((run / "evaluation.json").read_text())["test"]["loss"] < 6.4
    with open(run / "finetune" / "oof.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 200
    page = (place / "results" / "report.html").read_text()
    assert '<section id="finetune"' in page and "modernbert" in page
    assert project.would_run("all") == set()

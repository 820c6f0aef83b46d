"""`snakemake finetune` on a CSV of one's own, from the pretrained model to the report."""

import csv
import json
import re
import shutil

import pytest
from tiny_task import SECTION, write_csv

from .conftest import TINY

pytestmark = pytest.mark.workflow

DATA = {"source": "csv", "file": "labels.csv"}


def test_fine_tuning_is_a_target_of_the_workflow_and_trains_no_model_again(copied):
    write_csv(copied.path / "labels.csv", 200)
    finetune = {"enabled": True, "task": "regression", "data": DATA, "max_length": 16}
    copied.write_config(TINY | {"finetune": finetune})
    stages = {f"finetune_{stage}" for stage in ("data", "fold", "baseline", "model", "merge")}
    assert copied.would_run("finetune") == stages | {"finetune", "report"}


@pytest.mark.slow
def test_a_classifier_has_the_names_of_the_csv_and_a_card_with_the_pipeline(copied):
    write_csv(copied.path / "labels.csv", 48, classes=True)
    published = shutil.copytree(copied.path / "results/runs/base/model", copied.path / "known")
    finetune = SECTION | {"enabled": True, "task": "classification", "data": DATA, "epochs": 1}
    copied.write_config(TINY | {"finetune": finetune | {"also": ["known"]}})
    shown = copied.snakemake("finetune").stdout
    done = r"(?:fold base|published) \w+ \d: done in .+ \(accuracy 0\.\d{3}\)\n"
    assert len(re.findall(done, shown)) == 6
    made = copied.path / "results/runs/base/finetune"
    scores = json.loads((made / "metrics.json").read_text())["models"]
    assert scores["known"] == scores["pretrained"], "the same weights, tokenizer and seeds"
    assert f"(accuracy {scores['pretrained']['score']:.3f})\n" in shown
    for name, model in (("TF-IDF", "baseline"), ("the published encoder known", "known")):
        assert re.search(rf"{name}.* {scores[model]['score']:.3f}  [01]\.", shown)
    (copied.path / "new.csv").write_text("text\nthe the the the to\n")
    copied.python("scripts/predict.py", "--csv", "new.csv", "--configfile", "tiny.yaml")
    (row,) = csv.DictReader((copied.path / "predictions.csv").open())
    shares = {name: float(row[f"probability of {name}"]) for name in ("easy", "fair", "hard")}
    assert row["label"] == max(shares, key=shares.get)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
    names = json.loads((made / "model/config.json").read_text())["id2label"]
    assert list(names.values()) == ["easy", "fair", "hard"]
    assert 'pipeline("text-classification"' in (made / "model/README.md").read_text()
    assert "the published encoder known" in (made / "model/README.md").read_text()
    (published / "model.safetensors").touch()
    assert copied.would_run("finetune") == set()
    (published / "config.json").write_text((published / "config.json").read_text() + "\n")
    changed = {"finetune_published", "finetune_merge", "report", "finetune"}
    assert copied.would_run("finetune") == changed

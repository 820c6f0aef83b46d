"""Folds from end to end: the same bytes twice, after a kill, and on two devices."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_task import job, prepared, result_files

from mlm.errors import MlmError
from mlm.finetuning import stage as finetuning_job
from mlm.finetuning.files import read_history, read_predictions
from mlm.finetuning.results import STARTS, write_results
from mlm.finetuning.ridge_folds import write_ridge_predictions
from mlm.finetuning.stage import finetune_fold

ROOT = Path(__file__).parents[2]
PATHS = [str(ROOT / p) for p in ("tests/finetuning", "tests/unit", "scripts")]


def run(place, out, section, **how):
    settings, files = job(place, out, section, **how)
    finetune_fold(settings, files)
    return files


def whole(place, out, section):
    """All folds of both starts, the baseline, and the merge; gives metrics.json."""
    for start in STARTS:
        for fold in range(section["folds"]):
            run(place, out, section, start=start, fold=fold)
    write_ridge_predictions(
        place / "examples.csv", section["task"], section["folds"], 0.3, place / "ridge.csv"
    )
    write_results("base", section, 0, result_files(place, out, section["folds"]))
    return json.loads((place / out / "metrics.json").read_text())


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    section = prepared(place, rows=200, epochs=6)
    return place, section, whole(place, "one", section)


def test_200_rows_in_the_commonlit_layout_run_from_end_to_end(regression):
    place, _, metrics = regression
    rows = read_predictions(place / "one" / "oof.csv")
    assert [r.id for r in rows] == [f"r{i:03d}" for i in range(200)]
    errors = [(float(r.prediction) - float(r.target)) ** 2 for r in rows]
    assert metrics["models"]["pretrained"]["all"]["score"] == pytest.approx(
        np.mean(errors) ** 0.5, abs=1e-5
    )
    targets = [float(r.target) for r in rows]
    assert np.mean(errors) ** 0.5 < 0.8 * np.std(targets), "something was learned"
    assert set(metrics["models"]) == {"pretrained", "random", "tfidf_ridge"}
    assert len(metrics["differences"]) == 3
    assert (place / "one" / "model" / "model.safetensors").is_file()
    history = read_history(place / "one" / "history.csv")
    assert [(r.fold, r.epoch) for r in history] == [(f, e) for f in (0, 1) for e in range(1, 7)]
    assert all((r.compile > 0) == (r.epoch == 1) for r in history)
    assert history[-1].train_loss < history[0].train_loss


def test_a_fold_run_again_or_killed_and_resumed_leaves_the_same_bytes(regression, monkeypatch):
    place, section, _ = regression
    first = place / "one" / "pretrained" / "fold-0"
    again = Path(run(place, "again", section).predictions)
    assert again.read_bytes() == (first / "predictions.csv").read_bytes()

    learned = finetuning_job.Fold.epoch

    def killed(self, order):
        killed.epochs += 1
        if killed.epochs > 2:
            raise KeyboardInterrupt
        return learned(self, order)

    killed.epochs = 0
    settings, files = job(place, "killed", section)
    with monkeypatch.context() as patched:
        patched.setattr(finetuning_job.Fold, "epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            finetune_fold(settings, files)
    assert list(Path(files.state).rglob("state.safetensors")), "the two epochs are kept"
    assert not Path(files.predictions).exists()
    resumed = []
    with monkeypatch.context() as patched:
        patched.setattr(
            finetuning_job.Fold, "epoch", lambda s, o: resumed.append(0) or learned(s, o)
        )
        finetune_fold(settings, files)
    assert len(resumed) == 4, "two epochs of six were not trained again"
    assert Path(files.predictions).read_bytes() == again.read_bytes()
    weights = (first / "model.safetensors").read_bytes()
    assert Path(files.weights).read_bytes() == weights
    assert not list(Path(files.state).rglob("state.safetensors"))


def test_merging_twice_gives_the_same_bytes(regression):
    place, section, _ = regression
    metrics = (place / "one" / "metrics.json").read_bytes()
    write_results("base", section, 0, result_files(place, "one", section["folds"]))
    assert (place / "one" / "metrics.json").read_bytes() == metrics


def test_three_classes_run_from_end_to_end(tmp_path):
    section = prepared(tmp_path, rows=90, task="classification", epochs=1)
    metrics = whole(tmp_path, "out", section)
    assert metrics["score"] == "accuracy"
    assert metrics["models"]["tfidf_ridge"]["all"]["score"] > 0.8
    assert set(metrics["shown"]["classes"]) == {"easy", "fair", "hard"}
    assert 0 <= metrics["models"]["pretrained"]["macro_f1"] <= 1
    assert {r.prediction for r in read_predictions(tmp_path / "out" / "oof.csv")} <= {
        "easy",
        "fair",
        "hard",
    }


def test_a_fold_without_samples_is_named(tmp_path):
    section = prepared(tmp_path, rows=20)
    settings, files = job(tmp_path, "out", section | {"folds": 3}, fold=2)
    with pytest.raises(MlmError, match="fold 2 of 3 has 0 of 20 examples"):
        finetune_fold(settings, files)


PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from tiny_task import job
from mlm.finetuning.stage import finetune_fold
place, out, section, devices = json.loads(sys.argv[1])
finetune_fold(*job(Path(place), out, section, virtual_replicas=devices))
"""


def test_two_devices_have_the_loss_curve_of_one(tmp_path):
    section = prepared(tmp_path, rows=44)
    curves = []
    for devices in (1, 2):
        asked = section | {"per_device_batch_size": 8 // devices}
        request = json.dumps([str(tmp_path), f"on{devices}", asked, devices])
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, request, json.dumps(PATHS)],
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        rows = read_history(tmp_path / f"on{devices}" / "pretrained" / "fold-0" / "history.csv")
        curves.append([(r.train_loss, r.validation_loss) for r in rows])
    assert np.allclose(*curves, rtol=0, atol=1e-5)

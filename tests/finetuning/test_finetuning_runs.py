import contextlib
import csv
import io
import json
import os
import shutil
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from tiny_task import STARTS, job, merged, prepared

from mlm.config.accelerator import Accelerator
from mlm.finetuning.counting_baselines import write_baseline
from mlm.finetuning.fold_job import FoldName, finetune_fold
from mlm.finetuning.merged_folds import comparison_table, write_results
from mlm.finetuning.prediction import predict_csv
from mlm.foundations.errors import MlmError


def run(place, out, section, **how):
    asked = job(place, out, section, **how)
    finetune_fold(**asked)
    return asked["directory"]


def history_of(directory):
    with open(directory / "history.csv") as file:
        return list(csv.DictReader(file))


def whole(place, out, section):
    """All folds of both starts, the baseline, and the merge; gives metrics.json."""
    for start in STARTS:
        for fold in range(section.folds):
            run(place, out, section, start=start, fold=fold)
    run(place, out, section, fold=None)
    files = [place / name for name in ("examples.csv", "baseline.csv", "baseline.json")]
    write_baseline(*files, section.task, section.folds)
    table = comparison_table(write_results(**merged(place, out, section)))
    assert "the same network from random weights" in table and "TF-IDF" in table
    return json.loads((place / out / "metrics.json").read_text())


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    # So many that both folds have as many steps, and one compilation serves both.
    section = prepared(place, rows=202, epochs=6, per_device_batch_size=4, max_length=99)
    return place, section, whole(place, "one", section)


def test_a_csv_is_fine_tuned_on_from_end_to_end(regression):
    place, _, metrics = regression
    with open(place / "one" / "oof.csv") as file:
        rows = list(csv.DictReader(file))
    assert [r["id"] for r in rows] == [str(i) for i in range(1, 203)]
    for model in ("pretrained", "random", "baseline"):
        errors = [(float(r[model]) - float(r["target"])) ** 2 for r in rows]
        score = metrics["models"][model]["score"]
        assert score == pytest.approx(np.mean(errors) ** 0.5, abs=1e-5)
    targets = [float(r["target"]) for r in rows]
    assert metrics["models"]["pretrained"]["score"] < 0.8 * np.std(targets), "it has learned"
    assert len(metrics["differences"]) == len(metrics["models"]) == 3
    assert (place / "one" / "model" / "model.safetensors").is_file()
    history = history_of(place / "one" / "pretrained" / "fold-0")
    assert [float(row["epoch"]) for row in history] == pytest.approx([1, 2, 3, 4, 5, 6], abs=0.2)
    assert float(history[-1]["train_loss"]) < float(history[0]["train_loss"])


def test_the_model_to_use_is_trained_on_all_rows_and_predicts_new_ones(regression, tmp_path):
    place, *_ = regression
    assert "on all 202 examples" in (place / "one/model/README.md").read_text()
    table = tmp_path / "new.csv"
    table.write_text("n,words\n1,the the the the a\n2,to to to to to and a\n")
    accelerator = Accelerator(kind="cpu", precision="float32", cpu_threads=1)
    predict_csv(str(table), "words", place / "one" / "model", tmp_path / "out.csv", accelerator)
    first, second = csv.DictReader((tmp_path / "out.csv").open())
    assert first["n"] == "1"
    assert 1900 < float(first["value"]) < float(second["value"]) - 15 < 1985
    tokenizer = json.loads((place / "one/model/tokenizer_config.json").read_text())
    assert tokenizer["model_max_length"] == 16, "positions, not the tokens of the longest example"
    for content, message in (
        (table.read_text(), r"no column 'text'.*--text-column: 'n', 'words'"),
        ("text\n", "--csv: .* no row below a header"),
        ("", "--csv: .* no row below a header"),
        (None, "--csv: .* does not exist"),
    ):
        table.unlink() if content is None else table.write_text(content)
        with pytest.raises(MlmError, match=message):
            predict_csv(str(table), "text", place, tmp_path / "out.csv", accelerator)


@pytest.mark.slow
def test_a_fold_takes_the_best_of_its_learning_rates_by_its_validation_part(tmp_path):
    section = prepared(tmp_path, rows=60, epochs=8, learning_rate=[1e-7, 1e-2, 1e9])
    files = run(tmp_path, "one", section)
    record = json.loads((files / "fold.json").read_text())
    assert record["learning_rate"] == 0.01 and len(record["tried"]) == 2, "the last one diverges"
    assert record["tried"]["0.01"] < record["tried"]["1e-07"]


class Stopping(io.StringIO):
    """A terminal that sends this process SIGTERM after an epoch."""

    def write(self, text):
        if "step 26/152" in text:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)


def test_a_fold_run_again_or_stopped_and_resumed_leaves_the_same_bytes(regression, capsys):
    place, section, _ = regression
    first = place / "one" / "pretrained" / "fold-0"
    again = run(place, "again", section) / "predictions.csv"
    assert again.read_bytes() == (first / "predictions.csv").read_bytes()

    asked = job(place, "stopped", section)
    stop = pytest.raises(MlmError, match="Stopped by SIGTERM after step")
    with contextlib.redirect_stderr(Stopping()), stop:
        finetune_fold(**asked)
    assert not asked["directory"].exists()
    kept = sorted(path.stem for path in asked["state"].rglob("step-*"))
    assert kept[0] == "step-00000026", "an epoch"
    finetune_fold(**asked)
    assert f"resumes from step {int(kept[-1][5:])}" in capsys.readouterr().err
    for name in ("predictions.csv", "history.csv"):
        assert (asked["directory"] / name).read_bytes() == (first / name).read_bytes()
    assert not asked["state"].exists()


def test_a_published_encoder_that_does_not_fit_is_named(regression, tmp_path):
    place, section, _ = regression
    model = shutil.copytree(place / "model", tmp_path / "model")
    fields = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(fields | {"vocab_size": 20}))
    asked = job(place, "unfit", section) | {"name": FoldName(None, "known", 0), "model": model}
    with pytest.raises(MlmError, match=r"has 20 word embeddings \(vocab_size\)"):
        finetune_fold(**asked)


@pytest.mark.slow
def test_a_training_that_diverges_stops_and_names_the_learning_rate(regression):
    place, section, _ = regression
    asked = job(place, "diverged", section.model_copy(update={"learning_rate": [1e9]}))
    with pytest.raises(MlmError, match=r"not finite at step \d+ .*lower finetune.learning_rate"):
        finetune_fold(**asked)
    assert not asked["directory"].exists()


@pytest.mark.slow
def test_two_devices_have_the_loss_curve_of_one(tmp_path):
    section, curves = prepared(tmp_path, rows=44), []
    for devices in (1, 2):
        halved = section.model_copy(update={"per_device_batch_size": 8 // devices})
        asked = job(tmp_path, f"on{devices}", halved, virtual=devices)
        # Devices are opened once in a process.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(finetune_fold, **asked).result()
        rows = history_of(asked["directory"])
        curves.append([float(row[x]) for row in rows for x in ("train_loss", "validation_loss")])
    assert np.allclose(*curves, rtol=0, atol=1e-5)

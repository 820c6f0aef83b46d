import contextlib
import io
import json
import os
import shutil
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_task import changed, job, merged, prepared

from mlm.finetuning import fold_engine
from mlm.finetuning.fold_engine import traced_fold
from mlm.finetuning.fold_training import finetune_fold
from mlm.finetuning.results import STARTS, write_results
from mlm.finetuning.ridge_baseline import write_ridge_predictions
from mlm.finetuning.tables import EpochRow, read_predictions, read_rows
from mlm.foundations.errors import MlmError

#: By model, optimizer and shapes, what `compiled_once` keeps.
COMPILED = {}


@contextlib.contextmanager
def compiled_once():
    """Folds of the same shapes take the functions that the first had compiled."""

    def traced_once(mesh, model, optimizer, state, *size):
        key = repr((model.architecture, optimizer, size))
        if key not in COMPILED:
            traced = traced_fold(mesh, model, optimizer, state, *size)
            COMPILED[key] = [function.lower().compile() for function in traced]
        lowered = [SimpleNamespace(compile=lambda kept=kept: kept) for kept in COMPILED[key]]
        return [SimpleNamespace(lower=lambda one=one: one) for one in lowered]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_engine, "traced_fold", traced_once)
        yield


def run(place, out, section, **how):
    asked = job(place, out, section, **how)
    finetune_fold(**asked)
    return asked["directory"]


def whole(place, out, section):
    """All folds of both starts, the baseline, and the merge; gives metrics.json."""
    for start in STARTS:
        for fold in range(section.folds):
            run(place, out, section, start=start, fold=fold)
    ridge = [place / name for name in ("examples.csv", "ridge.csv", "ridge.json")]
    write_ridge_predictions(*ridge, section.task, section.folds, [0.03, 0.3])
    write_results(**merged(place, out, section))
    return json.loads((place / out / "metrics.json").read_text())


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    # So many that both folds have as many steps, and one compilation serves both.
    section = prepared(place, rows=202, epochs=6, per_device_batch_size=4)
    with compiled_once():
        return place, section, whole(place, "one", section)


def test_rows_in_the_commonlit_layout_run_from_end_to_end(regression):
    place, _, metrics = regression
    rows = read_predictions(place / "one" / "oof.csv")
    assert [r.id for r in rows] == [f"r{i:03d}" for i in range(202)]
    errors = [(float(r.predictions[0]) - float(r.target)) ** 2 for r in rows]
    assert metrics["models"]["pretrained"]["all"]["score"] == pytest.approx(
        np.mean(errors) ** 0.5, abs=1e-5
    )
    targets = [float(r.target) for r in rows]
    assert np.mean(errors) ** 0.5 < 0.8 * np.std(targets), "something was learned"
    assert len(metrics["differences"]) == len(metrics["models"]) == 3
    assert (place / "one" / "model" / "model.safetensors").is_file()
    history = read_rows(place / "one" / "history.csv", EpochRow)
    assert [(r.fold, r.epoch) for r in history] == [(f, e) for f in (0, 1) for e in range(1, 7)]
    assert history[-1].train_loss < history[0].train_loss


class Stopping(io.StringIO):
    """A terminal that sends this process SIGTERM when it is told `words`."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def write(self, text):
        if self.words in text:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)


def stopped(place, out, section, words):
    """The arguments of a fold that was stopped once it said `words`."""
    asked = job(place, out, section)
    stop = pytest.raises(MlmError, match="Stopped by SIGTERM after step")
    with compiled_once(), contextlib.redirect_stderr(Stopping(words)), stop:
        finetune_fold(**asked)
    assert not asked["directory"].exists()
    return asked


def test_a_fold_run_again_or_stopped_and_resumed_leaves_the_same_bytes(regression, capsys):
    place, section, _ = regression
    first = place / "one" / "pretrained" / "fold-0"
    # Compiled anew, as what it is compared with was.
    again = run(place, "again", section) / "predictions.csv"
    assert again.read_bytes() == (first / "predictions.csv").read_bytes()

    asked = stopped(place, "stopped", section, "epoch 2/6")
    kept = sorted(path.name for path in asked["state"].rglob("step-*"))
    assert kept == ["step-00000052", "step-00000072"], "26 steps an epoch, and 20 more"
    with compiled_once():
        finetune_fold(**asked)
    assert "2 of 6 epochs done" in capsys.readouterr().err
    for name in ("predictions.csv", "model.safetensors"):
        assert (asked["directory"] / name).read_bytes() == (first / name).read_bytes()
    assert not asked["state"].exists()


def test_a_published_encoder_that_does_not_fit_is_named(regression, tmp_path):
    place, section, _ = regression
    model = shutil.copytree(place / "model", tmp_path / "model")
    fields = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(fields | {"vocab_size": 20}))
    asked = job(place, "unfit", section) | {"names": (None, "known", 0), "model": model}
    with pytest.raises(MlmError, match=r"has 20 word embeddings \(vocab_size\)"):
        finetune_fold(**asked)


@pytest.mark.slow
def test_a_training_that_diverges_stops_and_names_the_learning_rate(regression):
    place, section, _ = regression
    asked = job(place, "diverged", changed(section, learning_rate=1e9))
    with pytest.raises(MlmError, match=r"diverged in epoch 1 .*finetune.learning_rate.*1e\+09"):
        finetune_fold(**asked)
    assert not asked["directory"].exists()


@pytest.mark.slow
def test_seeds_are_trainings_of_their_own_and_the_first_is_that_of_one_alone(tmp_path):
    section = prepared(tmp_path, rows=60, epochs=3, seeds=2)
    files = run(tmp_path, "two", section)
    rows = read_predictions(files / "predictions.csv")
    first, second = zip(*(r.predictions for r in rows), strict=True)
    assert first != second
    alone = run(tmp_path, "one", changed(section, seeds=1))
    assert [r.predictions[0] for r in read_predictions(alone / "predictions.csv")] == list(first)
    model = (files / "model.safetensors").read_bytes()
    assert (alone / "model.safetensors").read_bytes() == model
    history = read_rows(files / "history.csv", EpochRow)
    assert [(r.seed, r.epoch) for r in history] == [(s, e) for s in (0, 1) for e in (1, 2, 3)]
    assert len(set(json.loads((files / "fold.json").read_text())["seeds"])) == 2

    resumed = stopped(tmp_path, "stopped", section, "seed 1: epoch 1/3")
    finetune_fold(**resumed)
    for name in ("predictions.csv", "fold.json"):
        assert (resumed["directory"] / name).read_bytes() == (files / name).read_bytes()


@pytest.mark.slow
def test_two_devices_have_the_loss_curve_of_one(tmp_path):
    section, curves = prepared(tmp_path, rows=44), []
    for devices in (1, 2):
        halved = changed(section, per_device_batch_size=8 // devices)
        asked = job(tmp_path, f"on{devices}", halved, virtual=devices)
        # Devices are opened once in a process.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(finetune_fold, **asked).result()
        rows = read_rows(asked["directory"] / "history.csv", EpochRow)
        curves.append([(r.train_loss, r.validation_loss) for r in rows])
    assert np.allclose(*curves, rtol=0, atol=1e-5)

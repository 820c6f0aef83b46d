"""Logging to Weights & Biases: only when asked, offline without a key, and never a must."""

import sys
from types import SimpleNamespace

import pytest

from mlm.config.finetune import Wandb
from mlm.finetuning.tables import EpochRow
from mlm.finetuning.wandb_log import log_epochs
from mlm.foundations.errors import MlmError

ROWS = [EpochRow(0, 0, e, 1.0 / e, 1.5 / e, 0.5, 2.0, 0.0, 100.0) for e in (1, 2)]


def log(mode, tmp_path):
    log_epochs(Wandb(mode=mode), "base", "random-fold-0", {}, ROWS, str(tmp_path / "wandb"))


def test_disabled_needs_no_package_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    log("disabled", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_or_key_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MlmError, match="wandb is not installed"):
        log("offline", tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace())
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(MlmError, match="WANDB_API_KEY"):
        log("online", tmp_path)


def test_every_epoch_is_logged_at_its_number(tmp_path, monkeypatch):
    logged, asked = [], {}
    run = SimpleNamespace(
        log=lambda figures, step: logged.append((step, figures)),
        finish=lambda: logged.append("end"),
    )

    def init(**keys):
        asked.update(keys)
        return run

    fake = SimpleNamespace(init=init, Settings=lambda **keys: keys)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    log("offline", tmp_path)
    assert asked["mode"] == "offline" and asked["name"] == "random-fold-0-seed-0"
    assert [step for step, _ in logged[:2]] == [1, 2] and logged[2] == "end"
    assert logged[1][1]["train_loss"] == 0.5 and not {"fold", "seed"} & set(logged[1][1])


@pytest.mark.slow
def test_offline_leaves_a_run_on_the_disk(tmp_path):
    log("offline", tmp_path)
    assert list((tmp_path / "wandb").rglob("*.wandb"))

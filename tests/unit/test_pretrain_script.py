"""The script of rule `pretrain` asks for a passed preflight before a TPU that `auto` found."""

import importlib
from types import SimpleNamespace

import pytest

from mlm.config.resolution import RunConfiguration, resolve


@pytest.mark.parametrize(
    "kind, found, required, asked",
    [
        ("auto", "tpu", True, True),
        ("auto", "tpu", False, False),
        ("auto", "cpu", True, False),
        ("tpu", "tpu", True, False),
    ],
)
def test_a_tpu_that_auto_found_asks_for_the_preflight_of_its_step(
    kind, found, required, asked, monkeypatch
):
    from mlm.accelerators import required_preflight
    from mlm.training import pretrain

    devices = SimpleNamespace(framework="jax", precision="bfloat16", kind=found, group=None)
    run = SimpleNamespace(name="base", step_sizes=lambda: {"slots": 5})
    prepared = SimpleNamespace(run=run, devices=devices, states=SimpleNamespace(path="state"))
    gates, trained = [], []
    monkeypatch.setattr(required_preflight, "require_passed", lambda *of: gates.append(of))
    monkeypatch.setattr(pretrain, "prepare", lambda *_: prepared)
    monkeypatch.setattr(pretrain, "pretrain", lambda *of: trained.append(of))
    config = RunConfiguration.of(resolve({"accelerator": {"kind": kind}}), "base")
    importlib.import_module("pretrain").train(
        {
            "config": config.model_dump(),
            "files": {"tokenizer": "t/tokenizer.json", "manifests": {}},
            "preflight": "preflight.json" if required else None,
        },
        {"model_directory": "m", "log": "l", "summary": "s"},
    )
    step = {"engine": "jax", "precision": "bfloat16", "slots": 5}
    assert gates == ([("preflight.json", "base", step)] if asked else [])
    assert len(trained) == 1

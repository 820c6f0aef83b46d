"""A state belongs to the code that computes: an edit elsewhere throws no training away."""

import json
import shutil
from pathlib import Path

import pytest
from small_run import LENGTH, small_run

from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import FileMemory
from mlm.training import state_basis
from mlm.training.devices import Devices


def asked(root: Path, overrides: dict | None = None, engine: str = "tensorflow", replicas=1):
    """A run, its files and its device: what its states are made from, beside code and packages."""
    devices = Devices(engine, None, "cpu", "float32", replicas, {})
    return *small_run(root, overrides, replicas), devices


def basis(*given, **how) -> dict:
    return state_basis.state_basis(*asked(*given, **how))


@pytest.fixture(scope="module", autouse=True)
def code_that_is_remembered():
    """Each module is taken apart once, not once for each state and each edit of another."""
    memory = FileMemory(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_basis, "code_digests", lambda *asked: code_digests(*asked, memory))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_state_belongs_to_the_modules_that_compute_and_to_no_other(
    root, tmp_path, monkeypatch, engine
):
    monkeypatch.setattr(state_basis, "SCRIPTS", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SCRIPTS, tmp_path, ignore=ignored, dirs_exist_ok=True)
    run = asked(root, engine=engine)
    before = state_basis.state_basis(*run)
    modules = state_basis.COMPUTING_MODULES
    computing = modules["both"] + modules[engine]

    def edit(module: str) -> None:
        with open(tmp_path / (module.replace(".", "/") + ".py"), "a") as file:
            file.write("\nEDITED = True\n")

    found = sorted((tmp_path / "mlm").rglob("[!_]*.py"))
    every = [".".join(f.relative_to(tmp_path).with_suffix("").parts) for f in found]
    for module in set(every) - set(computing):
        edit(module)
    assert state_basis.state_basis(*run) == before
    # Each edit stays, so each must give what none before it gave.
    seen = [before]
    for module in computing:
        edit(module)
        seen.append(state_basis.state_basis(*run))
        assert seen[-1] != seen[-2], module


def test_a_state_belongs_to_every_value_that_its_bits_follow_from(root, monkeypatch):
    sections = [
        *({"steps": 41}, {"seed": 7}, {"per_replica_batch_size": 4}, {"shuffle_window": 50}),
        *({"masking": {name: value}} for name, value in (("slots", 3), ("whole_word", True))),
        *({"log_every": 10}, {"masking": {"random_token": 0.0}}, {"validation": {"samples": 40}}),
        *(
            {"optimizer": {"learning_rate": 0.01}},
            {"optimizer": {"gradient_accumulation_steps": 2}},
        ),
    ]
    found = [basis(root), basis(root, replicas=2)]
    found += [basis(root, {"pretraining": section}) for section in sections]
    monkeypatch.setattr(state_basis, "package_versions", lambda names: dict.fromkeys(names))
    found.append(basis(root))
    assert len({json.dumps(one, sort_keys=True) for one in found}) == len(sections) + 3


@pytest.mark.parametrize(
    "section",
    [
        {"checkpoint": {"every": 3, "keep": 1}},
        {"steps": None, "tokens": 40 * 8 * LENGTH},
        {"seed": 0},
    ],
    ids=str,
)
def test_a_state_does_not_belong_to_what_comes_to_the_same(root, section):
    assert basis(root, {"pretraining": section}) == basis(root)

"""A run that continues another one saves its time and changes no weight."""

import re

import pytest
from small_run import run_child, told

from mlm.foundations.digests import file_sha256

pytestmark = pytest.mark.slow

STEADY = {"warmup_steps": 4, "decay_steps": 0}
STABLE = {"pretraining": {"steps": 24, "optimizer": STEADY, "checkpoint": {"keep_steps": [13]}}}


def falling(steps: int, **changes) -> dict:
    """A run that is the stable one up to step 13, and then lets the rate fall."""
    rate = {"warmup_steps": 4, "decay_steps": steps - 13, "decay": "1-sqrt"}
    return {"pretraining": {"steps": steps, "optimizer": rate | changes}}


def branch(overrides: dict, step: int = 13) -> dict:
    start = {"pretraining": {"continue_from": {"run": "stable", "step": step}}}
    return overrides | {"runs": {"base": start, "stable": {}}, "parent": ("stable", STABLE)}


@pytest.fixture(scope="module")
def root(root):
    assert run_child(root, "stable", STABLE) == 0
    return root


def weights(root, name: str) -> str:
    return file_sha256(root / "runs" / name / "model" / "model.safetensors")


def test_a_killed_branch_goes_on_from_its_own_state(root):
    assert run_child(root, "killed", branch(falling(30)), {"step": 22}) < 0
    assert run_child(root, "killed", branch(falling(30))) == 0
    assert re.findall(r"resumes from step (\d+)", told(root, "killed")) == ["13", "20"]
    assert run_child(root, "longer", falling(30)) == 0
    assert weights(root, "killed") == weights(root, "longer")


def test_a_state_that_was_not_kept_is_told_with_those_that_are(root):
    assert run_child(root, "late", branch(falling(30), step=12)) == 3
    assert "no whole state after step 12 of run 'stable' (states there: 13, 20, 24)" in told(
        root, "late"
    )


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"learning_rate": 1e-4}, "settings optimizer.learning_rate: 0.006 then, 0.0001 now"),
        ({"warmup_steps": 5}, "learning rate of step 1: 0.0015 then, 0.0012 now"),
        ({"decay_steps": 9}, "learning rate of step 13: 0.006 then"),
    ],
)
def test_another_training_is_no_parent(root, changes, words):
    name = "other-" + "-".join(changes)
    assert run_child(root, name, branch(falling(20, **changes))) == 3
    assert "cannot continue run 'stable' from step 13" in told(root, name)
    assert words.removeprefix("settings ") in told(root, name)
    assert not (root / "runs" / name).exists()

"""A run that continues another one saves its time and changes no weight."""

import re

import pytest
from small_run import result, run_child, small_run, told

from mlm.foundations.errors import MlmError
from mlm.training.state_basis import check_branch

STEADY = {"warmup_steps": 4, "decay_steps": 0}
STABLE = {"pretraining": {"steps": 24, "optimizer": STEADY, "checkpoint": {"keep_steps": [13]}}}


def falling(steps: int, **changes) -> dict:
    """A run that is the stable one up to step 13, and then lets the rate fall."""
    rate = {"warmup_steps": 4, "decay_steps": steps - 13, "decay": "1-sqrt"}
    return {"pretraining": {"steps": steps, "optimizer": rate | changes}}


def branch(overrides: dict, step: int = 13) -> dict:
    start = {"pretraining": {"continue_from": {"run": "stable", "step": step}}}
    return overrides | {"runs": {"base": start, "stable": {}}, "parent": ("stable", STABLE)}


@pytest.mark.slow
def test_a_killed_branch_goes_on_from_its_own_state(root):
    assert run_child(root, "stable", STABLE) == 0
    assert run_child(root, "killed", branch(falling(30)), {"step": 22}) < 0
    assert run_child(root, "killed", branch(falling(30))) == 0
    assert re.findall(r"resumes from step (\d+)", told(root, "killed")) == ["13", "20"]
    assert run_child(root, "longer", falling(30)) == 0
    assert result(root, "killed")[0] == result(root, "longer")[0]
    assert run_child(root, "late", branch(falling(30), step=12)) == 3
    kept = "no whole state after step 12 (states there: 13, 20, 24)"
    assert kept in told(root, "late")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"learning_rate": 1e-4}, "optimizer.learning_rate: 0.006 then, 0.0001 now"),
        ({"warmup_steps": 5}, "learning rate of step 1: 0.0015 then, 0.0012 now"),
        ({"decay_steps": 9}, "learning rate of step 13: 0.006 then"),
    ],
)
def test_another_training_is_no_parent(root, changes, words):
    (run, _), (parent, _) = (small_run(root, o) for o in (falling(20, **changes), STABLE))
    with pytest.raises(MlmError, match=f"cannot continue run 'small' from step 13.*{words}"):
        check_branch(run, parent, 13)

"""Interrupted and uninterrupted trainings end in the same bytes, with dropout on."""

import random
import re
import signal

import pytest
from small_run import result, run_child, told


def resumed(root, name: str) -> list[str]:
    return re.findall(r"resumes from step (\d+)", told(root, name))


@pytest.mark.parametrize("engine", ["jax", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_a_killed_training_ends_like_one_left_alone(root, engine):
    killed, whole = f"killed-{engine}", f"whole-{engine}"
    overrides = {"pretraining": {"engine": engine, "steps": 12, "validation": {"every": 6}}}
    # In the middle of writing the second state.
    assert run_child(root, killed, overrides, {"write": 1}) == -signal.SIGKILL
    assert not (root / "runs" / killed).exists()
    assert run_child(root, killed, overrides) == 0
    assert resumed(root, killed) == ["5"]
    assert run_child(root, whole, overrides) == 0
    assert result(root, killed) == result(root, whole)


@pytest.mark.slow
def test_a_training_killed_before_its_first_save_does_not_count_again(root):
    counted = {"model": {"initialisation": {"embeddings": "cooccurrence"}}}
    assert run_child(root, "counted", counted, {"step": 3}) == -signal.SIGKILL
    assert run_child(root, "counted", counted) == 0
    assert told(root, "counted").count("from counts of the train split") == 1
    assert resumed(root, "counted") == ["0"]
    assert run_child(root, "alone", counted) == 0
    assert result(root, "counted") == result(root, "alone")


@pytest.mark.slow
def test_a_signal_after_the_moment_of_saving_is_not_told_as_saved(root):
    assert run_child(root, "late", fault={"stop": "behind a save"}) == 3
    assert "Stopped by SIGTERM after step 6 of 40" in told(root, "late")
    assert list(root.glob("state/late/*/step-00000006.state"))


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(root):
    moments, name = random.Random(8), "killed-2"
    overrides = {"accelerator": {"virtual_replicas": 2}}
    overrides |= {"pretraining": {"optimizer": {"name": "muon"}}}
    for attempt in range(6):
        # Half of them while a state is written.
        fault = {"write": moments.randrange(4)} if attempt % 2 else {"seconds": moments.random()}
        end = run_child(root, name, overrides, fault)
        assert end in (-signal.SIGKILL, 0)
        if end == 0:
            break
    assert run_child(root, name, overrides) == 0
    assert len(resumed(root, name)) >= 2
    assert run_child(root, "whole-2", overrides) == 0
    assert result(root, name) == result(root, "whole-2")

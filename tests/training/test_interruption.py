"""Interrupted and uninterrupted trainings end in the same bytes, with dropout on."""

import csv
import random
import re
import signal

import pytest
from small_run import result, run_child, told


def whole(root, count: int):
    """The result of a run on so many devices that was left alone."""
    name = f"whole-{count}"
    if not (root / "runs" / name).exists():
        assert run_child(root, name, replicas(count)) == 0
    return result(root, name)


def replicas(count: int) -> dict:
    return {"accelerator": {"virtual_replicas": count if count > 1 else None}}


def resumed(root, name: str) -> list[str]:
    return re.findall(r"resumes from step (\d+)", told(root, name))


def test_a_killed_training_ends_like_one_left_alone(root):
    # In the middle of writing the third file of the second state.
    assert run_child(root, "killed", fault={"write": 2}) == -signal.SIGKILL
    assert not (root / "runs" / "killed").exists()
    assert run_child(root, "killed") == 0
    assert resumed(root, "killed") == ["5"]
    assert result(root, "killed") == whole(root, 1)


@pytest.mark.slow
def test_a_training_killed_before_its_first_save_does_not_count_again(root):
    counted = {"model": {"initialisation": {"embeddings": "cooccurrence"}}}
    assert run_child(root, "counted", counted, {"step": 3}) == -signal.SIGKILL
    assert run_child(root, "counted", counted) == 0
    assert told(root, "counted").count("from counts of the train split") == 1
    assert resumed(root, "counted") == ["0"]
    assert run_child(root, "alone", counted) == 0
    assert result(root, "counted") == result(root, "alone")
    assert result(root, "counted")[0] != whole(root, 1)[0]
    with open(root / "runs" / "counted" / "training.csv") as file:
        seconds = [row["initialisation_seconds"] for row in csv.DictReader(file)]
    assert float(seconds[0]) > 0 and not any(seconds[1:])


@pytest.mark.slow
def test_with_muon_a_killed_training_ends_like_one_left_alone(root):
    # With four threads each half of a batch is computed on its own, and draws its own dropout.
    pretraining = {"per_replica_batch_size": 32, "optimizer": {"name": "muon"}}
    muon = {"accelerator": {"cpu_threads": 4}, "pretraining": pretraining}
    assert run_child(root, "muon", muon, {"step": 13}) == -signal.SIGKILL
    assert run_child(root, "muon", muon) == 0
    assert resumed(root, "muon") == ["10"]
    assert run_child(root, "muon-whole", muon) == 0
    assert result(root, "muon") == result(root, "muon-whole")


@pytest.mark.slow
def test_a_signal_after_the_moment_of_saving_is_not_told_as_saved(root):
    assert run_child(root, "late", fault={"step": 12, "signal": signal.SIGTERM}) == 3
    assert "Stopped by SIGTERM after step 13 of 40" in told(root, "late")
    assert list(root.glob("state/late/*/step-00000013/complete.json"))


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(root):
    moments, count, name = random.Random(8), 2, "killed-2"
    for attempt in range(6):
        # Half of them while a state is written: two writes of a state are announced.
        fault = {"write": moments.randrange(8)} if attempt % 2 else {"seconds": moments.random()}
        end = run_child(root, name, replicas(count), fault)
        assert end in (-signal.SIGKILL, 0)
        if end == 0:
            break
    assert run_child(root, name, replicas(count)) == 0
    assert len(resumed(root, name)) >= 2
    assert result(root, name) == whole(root, count)

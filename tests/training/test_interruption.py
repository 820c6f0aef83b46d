"""Interrupted and uninterrupted trainings end in the same bytes, with dropout on."""

import csv
import random
import re
import signal

import pytest
from small_run import result, run_child, told


def replicas(count: int) -> dict:
    return {"accelerator": {"virtual_replicas": count if count > 1 else None}}


def whole(root, count: int):
    """The result of a run left alone."""
    name = f"whole-{count}"
    if not (root / "runs" / name).exists():
        assert run_child(root, name, replicas(count)) == 0
    return result(root, name)


def test_a_killed_training_ends_like_one_left_alone(root):
    # In the middle of writing the third file of the second state.
    assert run_child(root, "killed-1", fault={"write": 2}) == -signal.SIGKILL
    assert not (root / "runs" / "killed-1").exists()
    assert run_child(root, "killed-1") == 0
    log = (root / "killed-1.stderr").read_text()
    assert re.findall(r"resumes from step (\d+)", log) == ["5"]
    assert result(root, "killed-1") == whole(root, 1)


@pytest.mark.slow
def test_a_training_killed_before_its_first_save_does_not_count_again(root):
    counted = {"model": {"initialisation": {"embeddings": "cooccurrence"}}}
    assert run_child(root, "counted", counted, {"step": 3}) == -signal.SIGKILL
    assert run_child(root, "counted", counted) == 0
    log = (root / "counted.stderr").read_text()
    assert log.count("from counts of the train split") == 1
    assert "counted: resumes from step 0 of 40" in log
    assert run_child(root, "alone", counted) == 0
    assert result(root, "counted") == result(root, "alone")
    assert result(root, "counted")[0] != whole(root, 1)[0]
    with open(root / "runs" / "counted" / "training.csv") as file:
        seconds = [row["initialisation_seconds"] for row in csv.DictReader(file)]
    assert float(seconds[0]) > 0 and not any(seconds[1:])


@pytest.mark.slow
@pytest.mark.parametrize("threads, count", [(1, 1), (1, 2), (4, 1)])
def test_with_muon_a_killed_training_ends_like_one_left_alone(root, threads, count):
    # With four threads each half of a batch is computed on its own, and draws its own dropout.
    pretraining = {"per_replica_batch_size": 32, "optimizer": {"name": "muon"}}
    devices = replicas(count)["accelerator"] | {"cpu_threads": threads}
    muon = {"accelerator": devices, "pretraining": pretraining}
    name = f"muon-{threads}-{count}"
    assert run_child(root, name, muon, {"step": 13}) == -signal.SIGKILL
    assert run_child(root, name, muon) == 0
    assert re.findall(r"resumes from step (\d+)", told(root, name)) == ["10"]
    assert run_child(root, f"{name}-whole", muon) == 0
    assert result(root, name) == result(root, f"{name}-whole")


@pytest.mark.slow
def test_a_signal_after_the_moment_of_saving_is_not_told_as_saved(root):
    fault = {"saved": 12, "signal": signal.SIGTERM}
    assert run_child(root, "late", fault=fault) == 3
    assert "Stopped by SIGTERM after step 13 of 40" in (root / "late.stderr").read_text()
    assert list(root.glob("state/late/*/step-00000013/complete.json"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 8])
def test_ten_kills_at_random_moments_change_nothing(root, count):
    moments = random.Random(count)
    name = f"killed-{count}"
    for attempt in range(10):
        # Half of them while a state is written: two writes of a state are announced.
        fault = {"write": moments.randrange(8)} if attempt % 2 else {"seconds": moments.random()}
        end = run_child(root, name, replicas(count), fault)
        assert end in (-signal.SIGKILL, 0)
        if end == 0:
            break
    assert run_child(root, name, replicas(count)) == 0
    assert told(root, name).count("resumes from step") >= 3
    assert result(root, name) == whole(root, count)

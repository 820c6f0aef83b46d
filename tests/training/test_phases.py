"""Phases of one run: rows of several samples, resumed to the bit, and every token once."""

import json
import re
import signal
from collections import Counter

import numpy as np
import pytest
from small_run import LENGTH, result, run_child, small_run, small_settings, told

from mlm.foundations.errors import ConfigError, MlmError
from mlm.samples.batch_order import stored_batches
from mlm.samples.manifests import Manifest
from mlm.samples.shard_reading import read_samples
from mlm.training.state_basis import check_branch

#: Of 40 steps: 20 of 8 samples, 10 of 2 rows of 4 and 10 of 3 rows of 2 with fewer masks.
PHASES = [
    {"share": 0.5},
    {"share": 0.25, "sequence_length": 4 * LENGTH},
    {
        "share": 0.25,
        "sequence_length": 2 * LENGTH,
        "mlm_probability": 0.15,
        "per_replica_batch_size": 3,
    },
]


def in_phases(engine: str, **pretraining) -> dict:
    return {"pretraining": {"engine": engine, "phases": PHASES} | pretraining}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["jax", "tensorflow"])
def test_kills_within_phases_and_at_their_ends_change_nothing(root, engine):
    name, overrides = f"killed-{engine}", in_phases(engine)
    for step in (12, 20, 24, 30, 33):
        assert run_child(root, name, overrides, {"step": step}) == -signal.SIGKILL
    assert run_child(root, name, overrides) == 0
    resumed = re.findall(r"resumes from step (\d+)", told(root, name))
    assert resumed == ["10", "15", "20", "25", "30"]
    assert run_child(root, f"whole-{engine}", overrides) == 0
    assert result(root, name) == result(root, f"whole-{engine}")
    training = json.loads((root / "runs" / name / "training.json").read_text())
    assert training["tokens"] == LENGTH * (20 * 8 + 10 * 8 + 10 * 6)
    assert [phase["end"] for phase in training["phases"]] == [20, 30, 40]
    config = json.loads((root / "runs" / name / "model" / "config.json").read_text())
    assert config["max_position_embeddings"] == 4 * LENGTH + 2


def test_the_rows_of_a_phase_are_the_text_of_the_shards_in_order_and_every_token_once(root):
    run, files = small_run(root, in_phases("jax", steps=400), with_model=False)
    samples = list(read_samples(Manifest.read(files.manifests["train"])))
    stored = np.concatenate([s.input_ids[s.attention_mask] for s in samples])
    long = run.phases[1]
    rows: dict[int, np.ndarray] = {}
    for epochs, indices, records in stored_batches(long.train, long.order_from(0)):
        ids, mask = long.train.decoded(records)
        of_first = np.flatnonzero(epochs == 0)
        assert not set(indices[of_first]) & rows.keys()
        rows |= {int(indices[i]): ids[i][mask[i] == 1] for i in of_first}
    assert sorted(rows) == list(range(long.train.num_samples))
    assert np.array_equal(np.concatenate([rows[i] for i in sorted(rows)]), stored)
    # Shards of 83, 40 and 77 samples, each with a last row that is filled up.
    assert Counter(len(row) for row in rows.values())[4 * LENGTH] == 20 + 10 + 19


@pytest.mark.slow
def test_a_branch_from_within_the_second_phase_ends_as_the_training_from_the_start(root):
    stable = {
        "optimizer": {"warmup_steps": 4, "decay_steps": 0},
        "checkpoint": {"keep_steps": [26]},
    }
    stable = in_phases("jax", **stable)
    assert run_child(root, "stable", stable) == 0
    # 20 steps of the first phase, 16 of the second, and the rate falls after the branch.
    phases = [PHASES[0] | {"share": 0.4}, PHASES[1] | {"share": 0.32}, PHASES[2] | {"share": 0.28}]
    falling = {"warmup_steps": 4, "decay_steps": 24, "decay": "1-sqrt"}
    whole = in_phases("jax", steps=50, phases=phases, optimizer=falling)
    branch = whole | {"runs": {"base": {}, "stable": {}}, "parent": ("stable", stable)}
    start = {"pretraining": {"continue_from": {"run": "stable", "step": 26}}}
    branch["runs"]["base"] = start
    for step in (31, 36, 41):
        assert run_child(root, "branch", branch, {"step": step}) == -signal.SIGKILL
    assert run_child(root, "branch", branch) == 0
    assert re.findall(r"resumes from step (\d+)", told(root, "branch")) == ["26", "30", "35", "40"]
    assert run_child(root, "whole", whole) == 0
    assert result(root, "branch")[0] == result(root, "whole")[0]


def test_a_branch_within_a_phase_is_the_same_training_up_to_its_step(root):
    steady = {"optimizer": {"warmup_steps": 4, "decay_steps": 0}}
    shares = {"share": 0.4}, {"share": 0.32}, {"share": 0.28}
    first, second, last = (phase | share for phase, share in zip(PHASES, shares, strict=True))
    parent, _ = small_run(root, in_phases("jax", **steady))

    def check(*phases: dict) -> None:
        run, _ = small_run(root, in_phases("jax", steps=50, **steady | {"phases": [*phases]}))
        check_branch(run, parent, 26)

    # Both make 20 steps of the first phase, and at least 10 of the second.
    check(first, second, last)
    for unlike in ((second, first), (first, second | {"mlm_probability": 0.4})):
        with pytest.raises(MlmError, match="phases"):
            check(*unlike, last)


@pytest.mark.parametrize(
    "phases, words",
    [
        ([{"share": 0.5}], "do not add up to 1"),
        ([{"share": 1.0, "sequence_length": 3 * LENGTH // 2}], "no multiple of"),
        ([{"share": 1.0, "sequence_length": 3 * LENGTH}], "no whole number of rows"),
        ([{"share": 0.999}, {"share": 0.001}], "no step of 40"),
    ],
)
def test_phases_that_cannot_be_are_refused(phases, words):
    with pytest.raises(ConfigError, match=words):
        small_settings({"pretraining": {"phases": phases}})


def test_a_phase_without_a_step_is_refused_also_where_epochs_set_the_length(root):
    with pytest.raises(MlmError, match="one has no step of 1"):
        small_run(root, in_phases("jax", steps=None, epochs=0.01), with_model=False)

"""How the batch is divided, and in what precision, does not shape what is learned."""

import csv

import numpy as np
import pytest
from small_run import run_child

from mlm.foundations.atomic import read_json

NO_DROPOUT = {"config": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}}
FIFTY = {
    "steps": 50,
    "log_every": 1,
    "validation": {"every": 1000},
    "checkpoint": {"every": 1000},
    "optimizer": {"gradient_accumulation_steps": 1},
}


def losses(
    root,
    name: str,
    replicas=None,
    batch=32,
    precision="float32",
    model=NO_DROPOUT,
    threads=1,
    **pretraining,
):
    """The losses of every logged step of a run, which is trained if it was not before."""
    log = root / "runs" / name / "training.csv"
    if not log.exists():
        overrides = {
            "model": model,
            "pretraining": FIFTY | {"per_replica_batch_size": batch} | pretraining,
            "accelerator": {
                "cpu_threads": threads,
                "virtual_replicas": replicas,
                "precision": precision,
            },
        }
        assert run_child(root, name, overrides) == 0, (root / f"{name}.stderr").read_text()
    with open(log) as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file)])


MUON = {"optimizer": {"name": "muon"}}
#: Ways to divide a batch of 32 samples that change no loss beyond rounding.
DIVISIONS = {
    "eight-replicas": {"replicas": 8, "batch": 4},
    "lanes-muon": {"threads": 2} | MUON,
    "accumulated-muon": {
        "batch": 8,
        "optimizer": {"name": "muon", "gradient_accumulation_steps": 4},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DIVISIONS)
def test_how_a_batch_is_divided_changes_no_loss(root, name):
    divided = losses(root, name, **DIVISIONS[name])
    one = losses(root, "one-muon", **MUON) if "muon" in name else losses(root, "one-adamw")
    assert len(one) == 50
    assert one[-1] < one[0] - 0.5
    np.testing.assert_allclose(divided, one, atol=1e-4, rtol=0)
    # Else no batch was divided: sums of parts are rounded in another way.
    assert not np.array_equal(divided, one)


@pytest.mark.slow
def test_accumulation_in_a_wide_model_is_the_large_batch(root):
    """Wide enough for TensorFlow's graph optimizer to rewrite the sums of the gradients."""
    wide = {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8}
    change = {"steps": 3, "model": {"config": NO_DROPOUT["config"] | wide}}
    one = losses(root, "wide", batch=4, **change)
    accumulated = losses(
        root, "wide-parts", batch=2, optimizer={"gradient_accumulation_steps": 2}, **change
    )
    np.testing.assert_allclose(accumulated, one, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_bfloat16_trains_like_float32(root):
    change = {"steps": 100, "log_every": 10, "batch": 8}
    single = losses(root, "float32", **change)
    half = losses(root, "bfloat16", precision="bfloat16", **change)
    assert read_json(root / "runs" / "bfloat16" / "training.json")["precision"] == "bfloat16"
    assert half[-1] == pytest.approx(single[-1], rel=0.02)
    assert single[-1] < single[0] - 0.5

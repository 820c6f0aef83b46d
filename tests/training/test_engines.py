"""One run in both engines, and what the one in JAX promises of its own."""

import csv
import json
import multiprocessing
import re
import signal

import numpy as np
import pytest
from small_run import run_child, small_job, write_inputs

from mlm.foundations.digests import file_sha256

JAX = {"pretraining": {"engine": "jax"}}
STEPS = 200
#: The optimizers, and what else leads through other code: batches in parts, whole words, decay.
CASES = {
    "adamw": {"optimizer": {"name": "adamw", "weight_decay": 0.1, "max_grad_norm": 1.0}},
    "muon": {
        "optimizer": {"name": "muon", "gradient_accumulation_steps": 2, "decay": "1-sqrt"},
        "masking": {"whole_word": True, "mlm_probability": 0.3},
    },
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("engines")
    write_inputs(made)
    return made


def train_in_both(root, name: str, family: str, pretraining: dict) -> None:
    """Write the losses of every step, and of validation, of one run in both engines, which begin
    in the same weights; TensorFlow and JAX are set up once in this process."""
    from mlm.pretraining.accelerator_settings import AcceleratorSettings
    from mlm.pretraining.engine import engine_of, open_devices
    from mlm.pretraining.run_inputs import pretraining_of, read_checked_manifests

    overrides = {
        "model": {
            "family": family,
            "config": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        },
        "pretraining": pretraining | {"steps": STEPS},
    }
    settings, files = small_job(root, name, overrides)
    manifests = read_checked_manifests(files, settings.sequence_length)
    run = pretraining_of(settings, files, manifests, replicas=1)
    found, weights = {}, None
    for framework in ("tensorflow", "jax"):
        devices = open_devices(framework, AcceleratorSettings.of(settings.accelerator))
        engine = engine_of(run, devices)
        if weights is None:
            weights = engine.exported().weights
        else:
            engine.begin_with(weights)
        losses = [engine.advance(1)["loss"] for _ in range(STEPS)]
        found[framework] = losses + list(engine.validate())
    (root / f"{name}.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    "family, case",
    [
        ("roberta-prelayernorm", "muon"),
        pytest.param("bert", "adamw", marks=pytest.mark.slow),
        pytest.param("roberta", "muon", marks=pytest.mark.slow),
    ],
)
def test_both_engines_have_the_same_losses(root, family, case):
    name = f"{family}-{case}"
    child = multiprocessing.get_context("spawn").Process(
        target=train_in_both, args=(root, name, family, CASES[case])
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    found = {k: np.array(v) for k, v in json.loads((root / f"{name}.json").read_text()).items()}
    assert found["jax"][STEPS - 1] < found["jax"][0] - 0.5
    np.testing.assert_allclose(found["jax"], found["tensorflow"], atol=1e-4, rtol=0)


CLOCK = ("tokens_per_second", "initialisation_seconds")


def result(root, name: str) -> tuple[str, list[dict]]:
    """The model's digest, and training.csv without the clock."""
    with open(root / "runs" / name / "training.csv") as file:
        rows = [{k: v for k, v in row.items() if k not in CLOCK} for row in csv.DictReader(file)]
    return file_sha256(root / "runs" / name / "model" / "model.safetensors"), rows


@pytest.mark.slow
def test_in_jax_a_killed_training_ends_like_one_left_alone(root):
    """With dropout, which the small run has, and Muon, whose moments are others."""
    muon = {"pretraining": JAX["pretraining"] | {"optimizer": {"name": "muon"}}}
    assert run_child(root, "killed", muon, {"step": 13}) == -signal.SIGKILL
    assert run_child(root, "killed", muon) == 0
    assert re.findall(r"goes on from step (\d+)", (root / "killed.stderr").read_text()) == ["10"]
    assert run_child(root, "alone", muon) == 0
    assert result(root, "killed") == result(root, "alone")

"""One run in both engines, and what the one in JAX promises of its own."""

import json
import multiprocessing
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from small_run import LENGTH, result, run_child, small_job, small_run

from mlm.foundations.errors import MlmError
from mlm.samples.masking import mask_batch
from mlm.samples.stored_batches import stored_batches
from mlm.samples.tfrecord import decode_samples
from mlm.training.run import check_validation

#: The optimizers, and what else leads through other code: batches in parts, whole words, decay.
CASES = {
    "adamw": {"optimizer": {"name": "adamw", "weight_decay": 0.1, "max_grad_norm": 1.0}},
    "muon": {
        "optimizer": {"name": "muon", "gradient_accumulation_steps": 2, "decay": "1-sqrt"},
        "masking": {"whole_word": True, "mlm_probability": 0.3},
    },
}


def train_in_both(root, name: str, family: str, pretraining: dict, steps: int) -> None:
    """Write the losses of every step, and of validation, of one run in both engines, which begin
    in the same weights; TensorFlow and JAX are set up once in this process."""
    from mlm.training.engine import engine_of, open_devices

    overrides = {
        "model": {
            "family": family,
            "config": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        },
        # Each engine draws classes of its own.
        "pretraining": pretraining | {"steps": steps, "softmax_classes": None},
    }
    config, _ = small_job(root, overrides=overrides)
    run, _ = small_run(root, overrides)
    found, weights = {}, None
    for framework in ("tensorflow", "jax"):
        devices = open_devices(framework, config.accelerator, 8)
        engine = engine_of(run, devices)
        if weights is None:
            weights = engine.exported().weights
        else:
            engine.begin_with(weights)
        sums = [engine.advance(1) for _ in range(steps)]
        losses = [step["loss"] / step["predictions"] for step in sums]
        found[framework] = losses + list(engine.validate())
    (root / f"{name}.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    "family, case, steps",
    [
        ("roberta-prelayernorm", "adamw", 30),
        pytest.param("roberta-prelayernorm", "muon", 200, marks=pytest.mark.slow),
        pytest.param("bert", "adamw", 200, marks=pytest.mark.slow),
    ],
)
def test_both_engines_have_the_same_losses(root, family, case, steps):
    name = f"{family}-{case}-{steps}"
    child = multiprocessing.get_context("spawn").Process(
        target=train_in_both, args=(root, name, family, CASES[case], steps)
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    found = {k: np.array(v) for k, v in json.loads((root / f"{name}.json").read_text()).items()}
    assert found["jax"][steps - 1] < found["jax"][0] - (0.5 if steps == 200 else 0.05)
    np.testing.assert_allclose(found["jax"], found["tensorflow"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_steps_without_a_prediction_are_no_part_of_the_mean(root, engine):
    """With one sample a step, of which a fiftieth is masked, most steps predict nothing."""
    masked = {"masking": {"mlm_probability": 0.02}, "softmax_classes": None, "log_every": 3}
    overrides = {"pretraining": {"engine": engine, "per_replica_batch_size": 1} | masked}
    name = f"few-{engine}"
    assert run_child(root, name, overrides) == 0
    run, _ = small_run(root, overrides, with_model=False)
    counts = []
    for epochs, index, records in stored_batches(run.train, run.order_from(0)):
        ids, attention = decode_samples(records, LENGTH)
        batch = mask_batch(ids, attention, index, run.plan, run.seed, epochs)
        counts.append(int(batch["weights"].sum()))
    rows = result(root, name)[1]
    steps = [0, *(int(row["step"]) for row in rows)]
    predictions = [sum(counts[first:last]) for first, last in pairwise(steps)]
    assert [bool(row["loss"]) for row in rows] == [count > 0 for count in predictions]
    assert 0 in predictions
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    assert min(losses) > float(rows[-1]["validation_loss"]) - 1.5 > 4
    summary = json.loads((root / "runs" / name / "training.json").read_text())
    assert summary["predictions"] == sum(counts)


def test_a_validation_that_would_predict_nothing_is_refused(root):
    overrides = {"pretraining": {"validation": {"samples": 3}}}
    run, _ = small_run(root, overrides, with_model=False)
    nothing = replace(run.validation_plan, mlm_probability=1e-9)
    check_validation(run)
    with pytest.raises(MlmError, match=r"pretraining\.validation\.samples: 3"):
        check_validation(replace(run, validation_plan=nothing))

"""One run in both engines, and what the one in JAX promises of its own."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import load
from small_run import in_child, small_job, small_run

#: The optimizers, and what else leads through other code: batches in parts, whole words, decay.
CASES = {
    "adamw": {"optimizer": {"name": "adamw", "weight_decay": 0.1, "max_grad_norm": 1.0}},
    "muon": {
        "optimizer": {"name": "muon", "gradient_accumulation_steps": 2, "decay": "1-sqrt"},
        "masking": {"whole_word": True, "mlm_probability": 0.3},
    },
}


def train_in_both(root, name: str, family: str, pretraining: dict, steps: int) -> None:
    """Train a run that drops and draws classes in both engines, each in its own state below
    {root}/{name}, and let each read the other's; TensorFlow and JAX are set up once in this
    process."""
    from mlm.training.pretrain import engine_of, open_devices

    # Compiling takes longer than what is compiled.
    quickly = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    os.environ["XLA_FLAGS"] = quickly
    overrides = {"model": {"family": family}, "pretraining": pretraining | {"steps": steps}}
    config, _ = small_job(root, overrides=overrides)
    run, _ = small_run(root, overrides)
    (root / name).mkdir()
    engines, losses, states = {}, {}, {}
    for framework in ("tensorflow", "jax"):
        engine = engine_of(run, open_devices(framework, config.accelerator, 8))
        states[framework, "begun"] = engine.saved()
        sums = [engine.advance(1) for _ in range(steps)]
        losses[framework] = [s["loss"] / s["predictions"] for s in sums] + [*engine.validate()]
        states[framework, "ended"] = engine.saved()
        engines[framework] = engine
    (root / name / "losses.json").write_text(json.dumps(losses))
    for framework, other in (("tensorflow", "jax"), ("jax", "tensorflow")):
        engines[framework].restore(steps, states[other, "ended"])
        states[framework, "of the other"] = engines[framework].saved()
    for (framework, moment), content in states.items():
        (root / name / f"{framework} {moment}").write_bytes(content)


@pytest.mark.parametrize(
    "family, case, steps",
    [
        ("roberta-prelayernorm", "muon", 30),
        pytest.param("roberta-prelayernorm", "muon", 200, marks=pytest.mark.slow),
        pytest.param("bert", "adamw", 200, marks=pytest.mark.slow),
    ],
)
def test_both_engines_begin_alike_have_the_same_losses_and_read_each_others_states(
    root, family, case, steps
):
    name = f"{family}-{case}-{steps}"
    assert in_child(train_in_both, root, name, family, CASES[case], steps) == 0
    found = json.loads((root / name / "losses.json").read_text())
    found = {framework: np.array(losses) for framework, losses in found.items()}
    assert found["jax"][steps - 1] < found["jax"][0] - (0.5 if steps == 200 else 0.05)
    np.testing.assert_allclose(found["jax"], found["tensorflow"], atol=1e-4, rtol=0)

    def state(framework: str, moment: str) -> bytes:
        return (root / name / f"{framework} {moment}").read_bytes()

    assert state("jax", "begun") == state("tensorflow", "begun")
    assert state("jax", "of the other") == state("tensorflow", "ended")
    assert state("tensorflow", "of the other") == state("jax", "ended")
    arrays = load(state("jax", "ended"))
    assert arrays["step"] == steps
    assert {name.split("/")[0] for name in arrays} == {"parameters", "moments", "step"}

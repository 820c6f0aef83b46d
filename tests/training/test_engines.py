"""One run in both engines, and what the one in JAX promises of its own."""

import numpy as np
import pytest
from safetensors.numpy import load
from small_run import small_job, small_run

from mlm.training.pretrain import engine_of, open_devices

#: The optimizers, and what else leads through other code: batches in parts, whole words, decay.
CASES = {
    "adamw": {"optimizer": {"name": "adamw", "weight_decay": 0.1, "max_grad_norm": 1.0}},
    "muon": {
        "optimizer": {"name": "muon", "gradient_accumulation_steps": 2, "decay": "1-sqrt"},
        "masking": {"whole_word": True, "mlm_probability": 0.3},
    },
}


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
    """Of a run that drops and draws classes."""
    overrides = {"model": {"family": family}, "pretraining": CASES[case] | {"steps": steps}}
    config, _ = small_job(root, overrides=overrides)
    run, _ = small_run(root, overrides)
    engines, losses, begun, ended = {}, {}, {}, {}
    for framework in ("tensorflow", "jax"):
        engine = engine_of(run, open_devices(framework, config.accelerator, 8))
        begun[framework] = engine.saved()
        sums = [engine.advance(1) for _ in range(steps)]
        figures = [s["loss"] / s["predictions"] for s in sums]
        losses[framework] = np.array([*figures, *engine.validate()])
        ended[framework] = engine.saved()
        engines[framework] = engine
    assert losses["jax"][steps - 1] < losses["jax"][0] - (0.5 if steps == 200 else 0.05)
    np.testing.assert_allclose(losses["jax"], losses["tensorflow"], atol=1e-4, rtol=0)
    assert begun["jax"] == begun["tensorflow"]
    for framework, other in (("tensorflow", "jax"), ("jax", "tensorflow")):
        engines[framework].restore(steps, ended[other])
        assert engines[framework].saved() == ended[other]
    arrays = load(ended["jax"])
    assert arrays["step"] == steps
    assert {name.split("/")[0] for name in arrays} == {"parameters", "moments", "step"}

"""Steps compiled for TPUs by libtpu; no TPU takes part."""

import pytest
import small_run

from mlm.preflight.compiler import COMPILED, NO_MEMORY, REFUSED, UNKNOWN_TARGET, compile_for
from mlm.preflight.steps_and_flops import described_train_step

MODERN = {
    "model": {"family": "modernbert", "initialisation": {"attention": "standard"}},
    "pretraining": {"attend": "document", "rematerialise": True, "optimizer": {"name": "muon"}},
}


def described(root, target, **changes):
    """The train step of the small run, in JAX."""
    small_run.write_inputs(root)
    changes["pretraining"] = {"engine": "jax"} | changes.get("pretraining", {})
    run, _ = small_run.small_run(root, changes)
    accelerator = small_run.small_job(root, overrides=changes)[0].accelerator
    return described_train_step(run, accelerator, target)


def test_the_train_step_compiles_for_a_tpu_is_beyond_its_memory_or_refused(tmp_path):
    """The very function that trains, over a mesh of four devices."""
    step, other = described(tmp_path, "v5e:2x2", **MODERN), described(tmp_path, "v5e:2x2")
    assert step["samples"] == 8
    large = other | {"samples": 2_500_000}
    refused = other | {"config": other["config"] | {"model_type": "gpt2"}}
    training, *answers = compile_for("v5e:2x2", step, large, refused)
    assert training.outcome == COMPILED, training.message
    # Weights and moments are updated in place.
    assert training.memory.aliased > 0.95 * training.memory.outputs
    assert [a.outcome for a in answers] == [NO_MEMORY, REFUSED], answers
    assert "exceed" in answers[0].message and "gpt2" in answers[1].message
    assert compile_for("v5e:3x3", step)[0].outcome == UNKNOWN_TARGET


@pytest.mark.slow
@pytest.mark.parametrize("target", ["v5e:16x16", "v6e:8x8", "v4:4x4x4", "v4:2x2x1"])
def test_a_whole_slice_compiles(tmp_path, target):
    (answer,) = compile_for(target, described(tmp_path, target))
    assert answer.outcome == COMPILED, answer.message

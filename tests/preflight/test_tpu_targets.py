"""Steps compiled for TPUs by libtpu; no TPU takes part."""

import pytest
import small_run

from mlm.preflight.compiler import COMPILED, NO_MEMORY, REFUSED, UNKNOWN_TARGET, compile_for
from mlm.preflight.described_steps import described_train_step
from mlm.preflight.judging import preflight

MODERN = {
    "model": {"family": "modernbert", "config": {"global_rope_theta": 100.0}},
    "pretraining": {"attend": "document", "rematerialise": True, "optimizer": {"name": "muon"}},
}


LONG = {"share": 0.5, "sequence_length": 4 * small_run.LENGTH, "per_replica_batch_size": 8}


def described(root, target, **changes):
    """The train step of the small run, in JAX."""
    small_run.write_inputs(root)
    changes["pretraining"] = {"engine": "jax"} | changes.get("pretraining", {})
    run, _ = small_run.small_run(root, changes)
    accelerator = small_run.small_job(root, overrides=changes)[0].accelerator
    return described_train_step(run, accelerator, target)


def test_the_train_step_compiles_for_a_tpu(tmp_path):
    """The very function that trains, over a mesh of four devices."""
    step = described(tmp_path, "v5e:2x2", **MODERN)
    assert step["samples"] == 8
    (training,) = compile_for("v5e:2x2", step)
    assert training.outcome == COMPILED, training.message
    # Weights and moments are updated in place.
    assert training.memory.aliased > 0.95 * training.memory.outputs


def in_phases(root, target, phases):
    """The row of the table for `target` of a run in `phases`, and what its findings are."""
    small_run.write_inputs(root)
    overrides = {"pretraining": {"engine": "jax", "phases": phases}}
    job = small_run.small_job(root, "phases", overrides)
    verdict = preflight([target], *job)
    assert verdict.passed, verdict.findings
    return verdict.targets[0]


def reports_the_largest_phase(root, target):
    """Whether the row is that of the longest of three phases, wherever it is among them."""
    short = {"share": 0.25}
    alone = in_phases(root, target, [LONG | {"share": 1.0}])
    for phases in ([short, LONG, short], [LONG, short, short]):
        row = in_phases(root, target, [*phases])
        assert row.outcome == COMPILED and row.memory.peak == alone.memory.peak
        assert row.flops_per_step == alone.flops_per_step
        assert row.global_batch_size == alone.global_batch_size
    smaller = in_phases(root, target, [short | {"share": 1.0}])
    assert smaller.memory.peak < row.memory.peak
    return True


@pytest.mark.slow
def test_of_phases_the_largest_step_is_reported(tmp_path):
    assert reports_the_largest_phase(tmp_path, "v5e:2x2")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["v5e:16x16", "v6e:8x8", "v4:4x4x4", "v4:2x2x1"])
def test_a_whole_slice_compiles(tmp_path, target):
    (answer,) = compile_for(target, described(tmp_path, target))
    assert answer.outcome == COMPILED, answer.message


def test_a_step_beyond_the_memory_is_told_from_a_refused_one_and_from_no_target(tmp_path):
    step = described(tmp_path, "v5e:2x2")
    large = step | {"samples": 2_500_000}
    refused = step | {"config": step["config"] | {"model_type": "gpt2"}}
    answers = compile_for("v5e:2x2", large, refused)
    assert [a.outcome for a in answers] == [NO_MEMORY, REFUSED], answers
    assert "exceed" in answers[0].message and "gpt2" in answers[1].message
    assert compile_for("v5e:3x3", step)[0].outcome == UNKNOWN_TARGET

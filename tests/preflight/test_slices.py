"""Slices of several hosts through the real TPU compiler, the steps of either engine."""

import pytest
import small_run

from mlm.accelerators.compiler import COMPILED, compile_for
from mlm.config.chips import replicas_of
from tests.preflight.test_lowering_job import lower_in_a_process

pytestmark = pytest.mark.slow

#: Targets, and the machines that the compiler describes: one for four chips.
SLICES = {"v5e:16x16": 64, "v6e:8x8": 16, "v4:4x4x4": 16}


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_whole_slice_compiles_and_sums_the_gradients_over_all_of_it(tmp_path, engine):
    small_run.write_inputs(tmp_path)
    step = lower_in_a_process(tmp_path, {"pretraining": {"engine": engine}}).step
    assert (step.engine, step.lowered) == (engine, True)
    gradients = 4 * step.parameters
    for target, hosts in SLICES.items():
        (found,) = compile_for(target, tmp_path / "train_step.stablehlo", quick=True)
        assert found.outcome == COMPILED, found.message
        assert (found.replicas, found.hosts) == (replicas_of(target), hosts)
        assert {(c.kind, c.replicas) for c in found.collectives} == {
            ("all-reduce", replicas_of(target))
        }
        summed = sum(c.bytes for c in found.collectives)
        assert summed == pytest.approx(gradients, rel=0.02)
        assert found.host_memory < 5 * 2**30

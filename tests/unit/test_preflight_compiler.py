"""The TPU compiler behind its small interface, on programs of a few lines."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlm.preflight import tpu_compiler
from mlm.preflight.tpu_compiler import (
    COMPILED,
    HOST_MEMORY,
    NO_COMPILER,
    NO_MEMORY,
    PRIVATE_INTERFACE,
    REFUSED,
    UNKNOWN_TARGET,
    Compilation,
    compile_for,
)

#: A product of two square matrices, summed over replicas, updated in place.
PROGRAM = """
module @step {
  func.func public @main(%x: tensor<NxNxf32> {tf.aliasing_output = 0 : i32}, %w: tensor<NxNxf32>)
      -> tensor<NxNxf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<NxNxf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<NxNxf32>) -> tensor<NxNxf32>
    return %1 : tensor<NxNxf32>
  }
}
"""


def write_program(path, width: int):
    path.write_text(PROGRAM.replace("N", str(width)))
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Two targets compiled at the same time, as parallel preflights would."""
    program = write_program(tmp_path_factory.mktemp("program") / "step.mlir", 1024)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda target: compile_for(target, program), ("v5e:2x2", "v3:2x2"))
        return dict(zip(("v5e", "v3"), found, strict=True))


def test_two_compilers_at_once_do_not_collide(compiled):
    assert {c.outcome for c in compiled.values()} == {COMPILED}


def test_the_all_reduce_goes_over_every_replica_of_the_target(compiled):
    assert (compiled["v5e"].replicas, compiled["v5e"].chips, compiled["v5e"].hosts) == (4, 4, 1)
    assert (compiled["v3"].replicas, compiled["v3"].chips, compiled["v3"].hosts) == (8, 4, 1)
    assert compiled["v5e"].all_reduces == 1


def test_the_figures_are_those_of_the_program(compiled):
    found, matrix = compiled["v5e"], 1024 * 1024 * 4
    assert found.arguments == 2 * matrix
    assert found.flops == pytest.approx(2 * 1024**3, rel=0.01)
    assert found.peak == (
        found.arguments + found.outputs - found.aliased + found.temporaries + found.code
    )
    assert found.peak <= found.compiler_peak + found.code


def test_a_program_that_overflows_the_memory_is_told_from_a_refused_one(tmp_path):
    found = compile_for("v5e:2x2", write_program(tmp_path / "large.mlir", 131072))
    assert found.outcome == NO_MEMORY
    assert "exceeds available HBM (15.75G)" in found.message
    assert found.replicas == 4


def test_an_unknown_topology_gets_the_nearest_names(tmp_path):
    found = compile_for("v5e-8", write_program(tmp_path / "step.mlir", 8))
    assert found.outcome == UNKNOWN_TARGET
    assert "nearest: v5e:2x4" in found.message


def test_a_program_that_is_none_is_refused(tmp_path):
    broken = tmp_path / "broken.mlir"
    broken.write_text("no program")
    found = compile_for("v5e:2x2", broken)
    assert found.outcome == REFUSED
    assert found.message


def test_an_update_of_jax_that_moves_its_private_parts_is_noticed():
    assert tpu_compiler.missing_private_interface() == []


def test_a_private_part_that_is_gone_is_named(monkeypatch):
    gone = (*PRIVATE_INTERFACE, ("jaxlib.xla_client", "NoSuchThing"))
    monkeypatch.setattr(tpu_compiler, "PRIVATE_INTERFACE", gone)
    found = tpu_compiler._compile_here("v5e:2x2", "none")
    assert found.outcome == NO_COMPILER
    assert "jaxlib.xla_client.NoSuchThing" in found.message


def test_without_libtpu_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(tpu_compiler, "find_spec", lambda name: None)
    found = tpu_compiler._compile_here("v5e:2x2", "none")
    assert found.outcome == NO_COMPILER
    assert "requirements.txt" in found.message


def test_the_libtpu_of_a_tpu_machine_is_told_from_the_compilers(monkeypatch):
    monkeypatch.setattr(tpu_compiler, "version", lambda name: "0.0.14")
    found = tpu_compiler._compile_here("v5e:2x2", "none")
    assert found.outcome == NO_COMPILER
    assert "libtpu 0.0.14" in found.message


@pytest.mark.parametrize("death", ["import os; os.kill(os.getpid(), 9)", "raise MemoryError"])
def test_a_compiler_that_runs_out_of_the_machines_memory_is_named(monkeypatch, death):
    real = subprocess.run

    def dying(command, **options):
        return real([sys.executable, "-c", death], **options)

    monkeypatch.setattr(tpu_compiler.subprocess, "run", dying)
    found = compile_for("v5e:2x2", "none")
    assert found.outcome == HOST_MEMORY
    assert "memory" in found.message


def test_the_peak_counts_reused_outputs_once():
    assert Compilation(COMPILED, "", 1, 1, 1, 100, 90, 80, 10, 5).peak == 125

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlm.accelerators import compiler
from mlm.accelerators.artefacts import Collective
from mlm.accelerators.compiler import (
    COMPILED,
    HOST_MEMORY,
    NO_MEMORY,
    REFUSED,
    UNKNOWN_TARGET,
    compile_for,
    require_compilers,
)
from mlm.config.targets import replicas_of
from mlm.foundations.errors import MlmError

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
        found = pool.map(lambda target: compile_for(target, program)[0], ("v5e:2x2", "v3:2x2"))
        return dict(zip(("v5e", "v3"), found, strict=True))


def test_the_all_reduce_goes_over_every_replica_of_the_target(compiled):
    assert (compiled["v5e"].replicas, compiled["v5e"].chips, compiled["v5e"].hosts) == (4, 4, 1)
    assert (compiled["v3"].replicas, compiled["v3"].chips, compiled["v3"].hosts) == (8, 4, 1)
    for target, found in compiled.items():
        assert found.replicas == replicas_of(f"{target}:2x2")
        (summed,) = found.collectives
        assert summed == Collective("all-reduce", found.replicas, count=1, bytes=4 * 1024**2)


def test_the_figures_are_those_of_the_program(compiled):
    memory, matrix = compiled["v5e"].memory, 1024 * 1024 * 4
    assert memory.arguments == 2 * matrix
    assert compiled["v5e"].flops == pytest.approx(2 * 1024**3, rel=0.01)
    # One matrix is updated in place; the copies in the core's own memory count as well.
    assert 2 * matrix <= memory.allocated < 3 * matrix
    assert 2 * matrix <= memory.peak <= 4 * matrix


def test_a_program_that_overflows_the_memory_is_told_from_a_refused_one(tmp_path):
    (found,) = compile_for("v5e:2x2", write_program(tmp_path / "large.mlir", 131072))
    assert found.outcome == NO_MEMORY
    assert "exceeds available HBM (15.75G)" in found.message
    assert found.replicas == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "program", "outcome"),
    [("v5e:3x3", PROGRAM, UNKNOWN_TARGET), ("v5e:2x2", "no program", REFUSED)],
)
def test_a_target_or_a_program_that_is_none_is_an_answer(tmp_path, target, program, outcome):
    (tmp_path / "step.mlir").write_text(program.replace("N", "8"))
    (found,) = compile_for(target, tmp_path / "step.mlir")
    assert found.outcome == outcome and found.message


def test_the_compiler_of_a_tpu_machine_is_refused_by_its_version(monkeypatch):
    monkeypatch.setattr(compiler, "version", lambda name: "0.0.14")
    with pytest.raises(MlmError, match=r"libtpu 0\.0\.14"):
        require_compilers(["v5e:2x2"])


def test_without_the_compiler_of_gpus_a_message_names_the_packages_and_the_command():
    with pytest.raises(MlmError, match=r"needs jax-cuda12-pjrt, .*requirements-preflight-gpu\.txt"):
        require_compilers(["v5e:2x2", "rtx4090"])


@pytest.mark.parametrize("death", ["import os; os.kill(os.getpid(), 9)", "raise MemoryError"])
def test_a_compiler_that_runs_out_of_the_machines_memory_is_named(monkeypatch, death):
    real = subprocess.run

    def dying(command, **options):
        return real([sys.executable, "-c", death], **options)

    monkeypatch.setattr(compiler.subprocess, "run", dying)
    (found,) = compile_for("v5e:2x2", "none")
    assert found.outcome == HOST_MEMORY
    assert "memory" in found.message


#: A dropout's random bits as TensorFlow's lowering for a CPU draws them.
DRAWING = """
module @draw {
  func.func public @main(%s: tensor<3xui64>) -> (tensor<3xui64>, tensor<4096x1024xui32>) {
    %a, %b = stablehlo.rng_bit_generator %s, algorithm = PHILOX
      : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4096x1024xui32>)
    return %a, %b : tensor<3xui64>, tensor<4096x1024xui32>
  }
}
"""


@pytest.mark.slow
def test_random_bits_are_drawn_by_the_tpus_own_generator(tmp_path):
    """Philox spelled out in arithmetic takes about a hundred operations for each number."""
    program = tmp_path / "draw.mlir"
    program.write_text(DRAWING)
    (found,) = compile_for("v5e:2x2", program)
    assert found.outcome == COMPILED
    assert found.flops < 4096 * 1024


@pytest.mark.slow
def test_a_quick_compilation_agrees_with_a_full_one(tmp_path, compiled):
    (quick,) = compile_for("v5e:2x2", write_program(tmp_path / "step.mlir", 1024), quick=True)
    assert quick.outcome == COMPILED
    assert quick.memory.arguments == compiled["v5e"].memory.arguments
    assert quick.flops == pytest.approx(compiled["v5e"].flops, rel=0.05)

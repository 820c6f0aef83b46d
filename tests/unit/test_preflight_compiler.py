"""Faults of a step in JAX, the compilers' environment, and a compiler that dies."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import refusal

from mlm.preflight import compiler, described_steps
from mlm.preflight.compiler import COMPILED, HOST_MEMORY, REFUSED, compile_for, require_compilers


def float64(x):
    with jax.enable_x64(True):
        return x.astype(jnp.float64).sum()


def python_on_the_host(x):
    return jax.pure_callback(np.sum, jax.ShapeDtypeStruct((), np.float32), x)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (jnp.sum, None),
        (float64, "computes in float64"),
        (python_on_the_host, "calls Python on the host"),
    ],
)
def test_a_fault_that_a_compiler_lets_pass_is_refused(monkeypatch, step, words):
    batch = jax.ShapeDtypeStruct((1024,), np.float32)
    monkeypatch.setattr(described_steps, "traced_step", lambda *_: jax.jit(step).trace(batch))
    compile_step = described_steps.compile_description
    given = jax.devices("cpu")[:1], {"attention": "xla"}, False
    if words:
        assert words in refusal(compile_step, *given)
    else:
        compiled, flops = compile_step(*given)
        assert compiled.cost_analysis()["bytes accessed"] >= 4096 and flops == 0


def test_without_the_compiler_of_gpus_a_message_names_the_packages_and_the_lock():
    assert "requirements-preflight-gpu.txt" in refusal(require_compilers, ["v5e:2x2", "rtx4090"])


@pytest.mark.parametrize(
    ("death", "outcome"),
    [("import os; os.kill(os.getpid(), 9)", HOST_MEMORY), ("raise KeyError('a name')", REFUSED)],
)
def test_a_compiler_that_dies_is_an_answer_to_every_step_that_is_left(monkeypatch, death, outcome):
    real = subprocess.run
    answered = f'print(\'{compiler._ANSWER}{{"outcome": "{COMPILED}"}}\', flush=True)'

    def dying(command, **options):
        return real([sys.executable, "-c", f"{answered}; {death}"], **options)

    monkeypatch.setattr(compiler.subprocess, "run", dying)
    first, *left = compile_for("v5e:2x2", {}, {}, {})
    assert first.outcome == COMPILED
    assert [answer.outcome for answer in left] == [outcome] * 2
    assert left[0].message

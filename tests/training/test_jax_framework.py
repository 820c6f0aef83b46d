"""The device that was asked for, or a message: JAX gives a CPU in silence where it has no other."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import users_environment

from mlm.foundations.errors import MlmError
from mlm.pretraining.in_jax.framework import data_mesh

SCRIPTS = str(Path(__file__).parents[2] / "scripts")


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_an_accelerator_that_jax_does_not_have_is_refused(kind):
    said = f"accelerator.kind: {kind}, but JAX finds no such device .it has only cpu"
    with pytest.raises(MlmError, match=said):
        data_mesh(kind, None)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from mlm.foundations.errors import MlmError
from mlm.pretraining.in_jax import framework
framework.prepare(sys.argv[2], 1, None)
try:
    print(framework.data_mesh(sys.argv[3], None).devices.flat[0].platform)
except MlmError as error:
    print("refused:", error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepared", "asked", "said"),
    [
        ("gpu", "gpu", "refused: accelerator.kind: gpu, but JAX finds no such device"),
        ("tpu", "tpu", "refused: accelerator.kind: tpu, but JAX finds no such device"),
        ("gpu", "auto", "but JAX has no support for it here: the CPU is used"),
        ("cpu", "cpu", "cpu"),
    ],
)
def test_a_fresh_process_never_takes_the_cpu_for_another_device(prepared, asked, said):
    """Prepared for gpu and asked for auto: a machine with a GPU whose JAX has no support for it."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, SCRIPTS, prepared, asked],
        capture_output=True,
        text=True,
        env=users_environment() | {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stdout + ran.stderr


PRODUCT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from mlm.pretraining.in_jax import framework
framework.prepare("cpu", 1, None)
before = os.environ["XLA_FLAGS"]
framework.data_mesh("cpu", None)
assert os.environ["XLA_FLAGS"] == before
import jax, jax.numpy as jnp
matrix = jax.ShapeDtypeStruct((512, 512), jnp.float32)
text = jax.jit(lambda a, b: jnp.tanh(a @ b)).lower(matrix, matrix).compile().as_text()
print("ynn" in text, " dot(" in text)
framework.prepare("cpu", 2, 2)
try:
    framework.data_mesh("cpu", 2)
except framework.MlmError as error:
    print(error)
"""


def test_products_on_a_cpu_are_eigens_and_devices_are_counted_once():
    """The flag for it is read once and gone: TensorFlow would end at one that it does not know."""
    ran = subprocess.run(
        [sys.executable, "-c", PRODUCT, SCRIPTS],
        env=users_environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert first == "False True"
    assert second.startswith("accelerator.virtual_replicas: 2, but JAX already runs")

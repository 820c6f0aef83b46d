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

"""The device that was asked for, or a message: JAX gives a CPU in silence where it has no other."""

import os
import sys
from pathlib import Path

import pytest
from tests.conftest import ended, users_environment

from mlm.foundations.errors import MlmError
from mlm.training.in_jax import devices

SCRIPTS = str(Path(__file__).parents[2] / "scripts")
PLUGIN, WITH_CUDA = "jax-cuda12-plugin", "cublas"


def versions(library):
    """Installed are JAX's plugin and a library of CUDA; nothing with None."""
    return lambda name: "1" if library and name in (PLUGIN, f"nvidia-{library}-cu12") else None


@pytest.mark.parametrize(
    ("kind", "library", "advice"),
    [
        ("gpu", WITH_CUDA, "nvidia-smi"),
        ("gpu", "cudnn", "requirements-gpu.txt"),
        ("gpu", None, "requirements-gpu.txt"),
        ("tpu", None, "jax.tpu"),
    ],
)
def test_a_gpu_that_is_asked_for_and_not_there_is_no_cpu(monkeypatch, kind, library, advice):
    monkeypatch.setattr(devices, "installed_version", versions(library))
    said = f"kind: {kind}, but JAX finds no such device .it has only cpu.*{advice}"
    with pytest.raises(MlmError, match=said):
        devices.data_mesh(kind, None)


def test_auto_goes_on_with_the_cpu_where_the_driver_fails(monkeypatch, capsys):
    """As where the packages and the device are there, and the driver is not."""
    import jax

    real, platforms = jax.devices, jax.config.jax_platforms

    def failing():
        if os.environ["JAX_PLATFORMS"] != "cpu":
            raise RuntimeError("Unable to initialize backend 'cuda'")
        return real()

    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    monkeypatch.setattr(jax, "devices", failing)
    monkeypatch.setattr(devices, "local_gpu", lambda: "/dev/nvidia0")
    monkeypatch.setattr(devices, "installed_version", versions(WITH_CUDA))
    try:
        mesh = devices.data_mesh("auto", None)
    finally:
        jax.config.update("jax_platforms", platforms)
    assert mesh.devices.flat[0].platform == "cpu"
    said = capsys.readouterr().err
    assert "cannot use a GPU (Unable to initialize backend 'cuda'" in said
    assert "Warning: the CPU is used" in said and "/dev/nvidia0" in said


@pytest.mark.parametrize(("deterministic", "flag"), [(True, "true"), (False, "false")])
def test_a_gpus_kernels_are_deterministic_unless_speed_is_asked_for(
    monkeypatch, deterministic, flag
):
    names = ("NPROC", "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DEFAULT_PRNG_IMPL")
    for name in (*names, "JAX_DEFAULT_MATMUL_PRECISION"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=maybe --xla_dump_to=x")
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    devices.prepare_jax("gpu", 1, None, deterministic)
    flags = f"--xla_dump_to=x --xla_gpu_deterministic_ops={flag}"
    assert os.environ["XLA_FLAGS"] == flags


PRODUCT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from mlm.training.in_jax import devices
devices.prepare_jax("cpu", 1, None)
before = os.environ["XLA_FLAGS"]
devices.data_mesh("cpu", None)
assert os.environ["XLA_FLAGS"] == before
import jax, jax.numpy as jnp
matrix = jax.ShapeDtypeStruct((512, 512), jnp.float32)
text = jax.jit(lambda a, b: jnp.tanh(a @ b)).lower(matrix, matrix).compile().as_text()
print("ynn" in text, " dot(" in text)
"""


def test_products_on_a_cpu_are_eigens():
    """The flag for it is read once and gone: TensorFlow would end at one that it does not know."""
    ran = ended(sys.executable, "-c", PRODUCT, SCRIPTS, env=users_environment())
    assert ran.stdout.strip() == "False True"

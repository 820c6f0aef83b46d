"""The device that was asked for, or a message: JAX gives a CPU in silence where it has no other."""

import os
import sys

import pytest
from tests.conftest import refusal

from mlm.training.in_jax import devices

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
        ("tpu", None, "jax[tpu]"),
    ],
)
def test_a_gpu_that_is_asked_for_and_not_there_is_no_cpu(monkeypatch, kind, library, advice):
    monkeypatch.setattr("mlm.training.devices.installed_version", versions(library))
    flags = os.environ.get("XLA_FLAGS")
    assert advice in refusal(devices.data_mesh, kind, None)
    # What JAX alone reads is gone: TensorFlow would end at a flag that it does not know.
    assert os.environ.get("XLA_FLAGS", "") == (flags or "")


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

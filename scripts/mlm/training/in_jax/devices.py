"""JAX and its devices: call `open_mesh`, or `prepare_jax`, before anything imports JAX."""

import os
import sys

from mlm.config.accelerator import GPU_MEMORY_SHARE, Accelerator
from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.terminal import show
from mlm.training.devices import (
    Devices,
    advice_for_jax,
    cuda_plugin,
    keep_freed_memory,
    local_gpu,
    local_tpu,
)
from mlm.training.processes import Peers, join

#: The mesh's one axis, over which batches are divided.
AXIS = "data"
#: Products on a CPU by Eigen: those of XLA's newer library take a third longer at larger widths.
_BY_EIGEN = "--xla_cpu_experimental_ynn_fusion_type="
_DETERMINISTIC = "--xla_gpu_deterministic_ops="

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def open_mesh(settings: Accelerator, together: bool = False) -> Devices:
    """Open the mesh of `settings`, on all processes `together`. Raises MlmError without devices."""
    how = settings.cpu_threads, settings.virtual_replicas, settings.deterministic
    prepare_jax(settings.kind, *how)
    group = join(settings) if together else Peers()
    mesh = data_mesh(settings.kind, settings.virtual_replicas, group.count)
    kind = mesh.devices.flat[0].platform
    arithmetic = {"processes": group.count} if group.count > 1 else {}
    if kind == "gpu":
        arithmetic["deterministic"] = settings.deterministic
    elif kind == "cpu":
        arithmetic["threads"] = int(os.environ["NPROC"])
    # float32 on a CPU, unless set: XLA multiplies bfloat16 there no faster.
    return Devices("jax", mesh, kind, settings.precision_on(kind), mesh.size, arithmetic, group)


def prepare_jax(
    kind: str, cpu_threads: int, virtual_devices: int | None, deterministic: bool = True
) -> None:
    """Set what XLA reads once, when JAX first lists its devices. `kind` auto is settled here, since
    JAX would load libtpu wherever it is installed. NPROC sizes XLA's pool of threads, which shapes
    how sums are divided. Without `deterministic`, a GPU may give other bits in every run."""
    if virtual_devices:
        kind = "cpu"
    elif kind == "auto":
        kind = "tpu" if local_tpu() else "gpu" if local_gpu() else "cpu"
    settings = {
        # The CPU is always there: the data waits in its memory.
        "jax_platforms": {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}[kind],
        # These decide bits, and a user's environment may set them otherwise.
        "jax_enable_x64": False,
        "jax_default_prng_impl": "threefry2x32",
        # Products of float32 are in float32, not in a TPU's bfloat16 or a GPU's TF32.
        "jax_default_matmul_precision": "highest",
    }
    for name, value in settings.items():
        os.environ[name.upper()] = str(value)
        if "jax" in sys.modules:
            # TensorFlow may have imported it: then it no longer reads the variables.
            sys.modules["jax"].config.update(name, value)
    os.environ["NPROC"] = str(max(cpu_threads, virtual_devices or 1))
    flags = os.environ.get("XLA_FLAGS", "").split()
    flags = [f for f in flags if "device_count" not in f and _DETERMINISTIC not in f]
    if kind == "cpu":
        keep_freed_memory(arenas=1)
    if kind == "gpu":
        flags.append(f"{_DETERMINISTIC}{str(deterministic).lower()}")
        if "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ:  # JAX refuses both names together
            os.environ.setdefault("XLA_CLIENT_MEM_FRACTION", str(GPU_MEMORY_SHARE))
    if virtual_devices:
        flags.append(f"--xla_force_host_platform_device_count={virtual_devices}")
    os.environ["XLA_FLAGS"] = " ".join(flags)


def shardings(mesh):
    """Return the shardings of a mesh: whole on every device, and divided by the first axis."""
    from jax.sharding import NamedSharding, PartitionSpec

    return NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(AXIS))


def data_mesh(kind: str, virtual_devices: int | None, processes: int = 1):
    """Return a mesh with the axis "data" over all devices of `kind`, after `prepare_jax`; each of
    `processes` has `virtual_devices`, if any. Raises MlmError without such a device."""
    import jax
    import numpy as np
    from jax.sharding import Mesh

    wanted, flags = "cpu" if virtual_devices else kind, os.environ.get("XLA_FLAGS", "")
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        os.environ["XLA_FLAGS"] = f"{flags} {_BY_EIGEN}".strip()
    try:
        devices = jax.devices()
        reason = f"it has only {devices[0].platform}"
    except RuntimeError as error:
        devices, reason = [], first_line(error)
    finally:
        # JAX's XLA has read them; TensorFlow's XLA ends the process at flags unknown to it.
        os.environ["XLA_FLAGS"] = flags
    if wanted == "auto" and not devices and "cuda" in os.environ["JAX_PLATFORMS"]:
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")
        devices = jax.devices()
    if not devices or wanted not in ("auto", devices[0].platform):
        raise MlmError(
            f"accelerator.kind: {kind}, but JAX finds no such device ({reason}). "
            f"{advice_for_jax(kind)}, or set accelerator.kind: cpu"
        )
    if wanted == "auto" and devices[0].platform == "cpu" and (local_gpu() or cuda_plugin()):
        advice = f"{advice_for_jax('gpu')}, or set accelerator.kind: cpu if that is meant"
        show(f"Warning: the CPU is used, since JAX finds no GPU ({reason}). {advice}")
    count = processes * virtual_devices if virtual_devices else None
    return Mesh(np.array(devices[:count]), (AXIS,))

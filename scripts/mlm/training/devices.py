"""Devices: CPUs, GPUs (only JAX trains on them) and TPUs, present in a machine or opened."""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlm.foundations.environment import installed_version
from mlm.training.processes import Peers

#: PCI numbers: Google's as a vendor, which its other cards have too, and those of TPUs, v2 to v7x.
_GOOGLE = "0x1ae0"
_TPU_CHIPS = ("0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")
#: Variables of which a TPU VM, or a pod with a TPU on Kubernetes, sets at least one.
_TPU_VARIABLES = ("TPU_NAME", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID")
#: Flags of processors that multiply bfloat16 matrices: x86-64's, and those of 64-bit ARM.
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
_NVIDIA_DEVICES = ("dev/nvidia0", "dev/nvidiactl", "dev/dxg")
#: The packages with which JAX uses NVIDIA GPUs, by the version of CUDA that they bring. A plugin
#: without cuBLAS is there only to compile for the preflight.
_CUDA_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")
_CUBLAS = ("nvidia-cublas-cu12", "nvidia-cublas")


@dataclass(frozen=True)
class Devices:
    """Devices that `framework`, "tensorflow" or "jax", has opened: `strategy` is TensorFlow's
    distribution strategy or JAX's mesh with the one axis "data", `kind` "cpu", "gpu" or "tpu",
    `arithmetic` what else decides how numbers are rounded, JSON-like, `group` the processes."""

    framework: str
    strategy: Any
    kind: str
    precision: str
    replicas: int
    arithmetic: dict[str, Any]
    group: Peers = field(default_factory=Peers)

    @property
    def name(self) -> str:
        return type(self.strategy).__name__


def local_tpu(root: str | Path = "/", environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the sign of a TPU in this machine, or None; `root` is the directory of `sys`."""
    for vendor in sorted(Path(root).glob("sys/bus/pci/devices/*/vendor")):
        if _content(vendor) == _GOOGLE and _content(vendor.with_name("device")) in _TPU_CHIPS:
            return f"the PCI device {vendor.parent.name} is a TPU chip"
    named = [name for name in _TPU_VARIABLES if environment.get(name)]
    return f"the environment has {named[0]}" if named else None


def local_gpu(root: str | Path = "/", environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the sign of an NVIDIA GPU; None without one or if it is hidden. `root` holds `dev`."""
    if environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return None
    return next((f"/{name}" for name in _NVIDIA_DEVICES if (Path(root) / name).exists()), None)


def cpu_multiplies_bfloat16(root: str | Path = "/") -> bool:
    """Return whether every processor multiplies bfloat16 (False on macOS); `root` holds `proc`."""
    lines = _content(Path(root) / "proc" / "cpuinfo").splitlines()
    flags = [line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))]
    return bool(flags) and all(_BFLOAT16_FLAGS & set(line.split()) for line in flags)


def cuda_plugin() -> str | None:
    """Return the package with which JAX would use a GPU, if it is installed."""
    plugin = next(filter(installed_version, _CUDA_PLUGINS), None)
    return plugin if any(map(installed_version, _CUBLAS)) else None


def advice_for_jax(kind: str) -> str:
    """Return what to do if JAX uses no device of this kind."""
    if kind != "gpu":
        return "Install JAX for a TPU (pip install 'jax[tpu]' at the version here)"
    if plugin := cuda_plugin():
        return f"{plugin} is installed: check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES"
    return "Install the packages of envs/requirements-gpu.txt"


def keep_freed_memory(arenas: int | None = None) -> None:
    """Have glibc keep the memory of freed arrays for the next ones, of the same sizes in each step,
    in at most so many `arenas`. By default it returns large blocks to the kernel, whose new pages
    cost a step nearly as much time as its arithmetic. Other C libraries have no such call."""
    trim_threshold, mmap_max, arena_max = -1, -4, -8
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(trim_threshold, -1)
        mallopt(mmap_max, 0)
        if arenas is not None:
            mallopt(arena_max, arenas)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""

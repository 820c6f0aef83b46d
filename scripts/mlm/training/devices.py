"""The devices of a training: those of this machine, and those that a framework has opened."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlm.training.processes import Peers

_GOOGLE = "0x1ae0"
#: Generations by PCI device number: other cards have Google's vendor number too.
_TPU_CHIPS = {
    **{"0x0027": "v2 or v3", "0x005e": "v4", "0x0062": "v5p", "0x0063": "v5e"},
    **{"0x006f": "v6e", "0x0076": "v7x"},
}
#: Variables of which a TPU VM, or a pod with a TPU on Kubernetes, sets at least one.
_TPU_VARIABLES = ("TPU_NAME", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID")
#: Flags of processors that multiply bfloat16 matrices: x86-64's, and those of 64-bit ARM.
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
_NVIDIA_DEVICES = ("dev/nvidia0", "dev/nvidiactl", "dev/dxg")


@dataclass(frozen=True)
class Devices:
    """Devices that `framework`, "tensorflow" or "jax", has opened: `strategy` is TensorFlow's
    distribution strategy or JAX's mesh with the one axis "data", `kind` "cpu", "gpu" or "tpu",
    `arithmetic` what else decides how numbers are rounded, JSON-like."""

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
    """What shows that this machine has a TPU, in words, or None; `root` holds `sys`."""
    for vendor in sorted(Path(root).glob("sys/bus/pci/devices/*/vendor")):
        chip = _TPU_CHIPS.get(_content(vendor.with_name("device")))
        if _content(vendor) == _GOOGLE and chip:
            return f"the PCI device {vendor.parent.name} is a TPU chip, {chip}"
    named = [name for name in _TPU_VARIABLES if environment.get(name)]
    return f"the environment has {named[0]}" if named else None


def local_gpu(root: str | Path = "/", environment: Mapping[str, str] = os.environ) -> str | None:
    """The sign of an NVIDIA GPU; None without one, or if it is hidden. `root` holds `dev`."""
    if environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return None
    return next((f"/{name}" for name in _NVIDIA_DEVICES if (Path(root) / name).exists()), None)


def cpu_multiplies_bfloat16(root: str | Path = "/") -> bool:
    """Whether every processor has products of bfloat16 (False on macOS); `root` holds `proc`."""
    lines = _content(Path(root) / "proc" / "cpuinfo").splitlines()
    flags = [line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))]
    return bool(flags) and all(_BFLOAT16_FLAGS & set(line.split()) for line in flags)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""

"""The devices that train, as a mesh of JAX."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mlm.config.accelerator import Accelerator
from mlm.training.in_jax.framework import data_mesh, prepare_jax
from mlm.training.processes import Peers


@dataclass(frozen=True)
class MeshDevices:
    """A mesh with the one axis "data" over the devices of all processes, its kind ("cpu", "gpu" or
    "tpu") and precision; `deterministic` is whether a GPU gives the same bits every time."""

    mesh: Any
    kind: str
    precision: str
    deterministic: bool = True
    group: Peers = field(default_factory=Peers)
    framework = "jax"

    @property
    def replicas(self) -> int:
        return self.mesh.size

    @property
    def name(self) -> str:
        return type(self.mesh).__name__

    def arithmetic(self) -> dict:
        """What else of the devices decides how numbers are rounded."""
        several = {"processes": self.group.count} if self.group.count > 1 else {}
        if self.kind == "gpu":
            return several | {"deterministic": self.deterministic}
        return several | ({"threads": int(os.environ["NPROC"])} if self.kind == "cpu" else {})


def open_mesh(settings: Accelerator, together: bool = False) -> MeshDevices:
    """The mesh that `settings` ask for, over several processes if they train `together`, before JAX
    is imported; MlmError if there is no such device."""
    prepare_jax(
        settings.kind, settings.cpu_threads, settings.virtual_replicas, settings.deterministic
    )
    group = Peers()
    if together:
        from mlm.training.in_jax.together import join

        group = join(settings)
    mesh = data_mesh(settings.kind, settings.virtual_replicas, group.count)
    if "tensorflow" in sys.modules:
        # It writes logs and states beside, and must not take the GPU's memory.
        with suppress(RuntimeError):  # where it has taken its devices already
            sys.modules["tensorflow"].config.set_visible_devices([], "GPU")
    kind = mesh.devices.flat[0].platform
    precision = settings.precision
    if precision == "auto":
        # XLA multiplies bfloat16 on a CPU no faster than float32.
        precision = "bfloat16" if kind == "tpu" else "float32"
    return MeshDevices(mesh, kind, precision, settings.deterministic, group)

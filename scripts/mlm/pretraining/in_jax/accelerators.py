"""The devices that train, as a mesh of JAX."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mlm.config.families import unfit_tpu
from mlm.foundations.errors import MlmError
from mlm.pretraining.accelerator_settings import AcceleratorSettings
from mlm.pretraining.in_jax.framework import data_mesh, prepare


@dataclass(frozen=True)
class Accelerator:
    """A mesh with the one axis "data", its kind ("cpu", "gpu" or "tpu") and precision.

    `deterministic` is whether a GPU gives the same bits every time, as the others do.
    """

    mesh: Any
    kind: str
    precision: str
    deterministic: bool = True
    framework = "jax"

    @property
    def replicas(self) -> int:
        return self.mesh.size

    @property
    def name(self) -> str:
        return type(self.mesh).__name__

    def arithmetic(self) -> dict:
        """What else of the devices decides how numbers are rounded."""
        if self.kind == "gpu":
            return {"deterministic": self.deterministic}
        return {"threads": int(os.environ["NPROC"])} if self.kind == "cpu" else {}


def open_accelerator(settings: AcceleratorSettings) -> Accelerator:
    """Set up the devices that `settings` ask for. Call once, before anything imports JAX.

    Raises MlmError when there is no such device, saying what was looked for.
    """
    if problem := unfit_tpu("jax", settings):
        raise MlmError(problem)
    prepare(settings.kind, settings.cpu_threads, settings.virtual_replicas, settings.deterministic)
    mesh = data_mesh(settings.kind, settings.virtual_replicas)
    if "tensorflow" in sys.modules:
        # It writes logs and states beside, and must not take the GPU's memory.
        with suppress(RuntimeError):  # where it has taken its devices already
            sys.modules["tensorflow"].config.set_visible_devices([], "GPU")
    kind = mesh.devices.flat[0].platform
    precision = settings.precision
    if precision == "auto":
        # XLA multiplies bfloat16 on a CPU no faster than float32.
        precision = "bfloat16" if kind == "tpu" else "float32"
    return Accelerator(mesh, kind, precision, settings.deterministic)

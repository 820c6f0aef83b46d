"""The devices of a training, once a framework has opened them."""

from dataclasses import dataclass, field
from typing import Any

from mlm.training.processes import Peers


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

"""Section `accelerator`: what is asked of the device that trains."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TpuNode:
    """Which TPU: that of this machine ("local"), or a node by name, zone and project."""

    name: str = "local"
    zone: str | None = None
    project: str | None = None


@dataclass(frozen=True)
class AcceleratorSettings:
    """Section `accelerator` of the configuration."""

    kind: str
    precision: str
    virtual_replicas: int | None
    cpu_threads: int
    #: Of the engine in JAX on a GPU.
    deterministic: bool = True
    tpu: TpuNode = field(default_factory=TpuNode)
    processes: int | None = None
    start: str = "here"
    join_seconds: int = 300
    continue_on_other_devices: bool = False

    @property
    def together(self) -> bool:
        """Whether several processes train."""
        return self.start == "hosts" or (self.processes or 1) > 1

    @classmethod
    def of(cls, section: dict) -> "AcceleratorSettings":
        """From the resolved section."""
        return cls(**(section | {"tpu": TpuNode(**section["tpu"])}))

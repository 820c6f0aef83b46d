"""Section `accelerator`: what is asked of the device that trains."""

from dataclasses import dataclass, field

#: Samples that are worth a part of their own: with fewer, its matrices are too small to gain.
LEAST_IN_LANE = 16


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

    def lanes(self, batch: int) -> int:
        """Equal parts of `batch` samples that a CPU computes at the same time in TensorFlow.

        At the default's size half of a batch on each of two threads takes three quarters of the
        time that one operation after the other takes on both: the division of small matrices costs
        much of what it gains, and many operations cannot be divided. Logical devices have a thread
        each as it is.
        """
        if self.virtual_replicas:
            return 1
        most = max(1, min(self.cpu_threads, batch // LEAST_IN_LANE))
        return max(lanes for lanes in range(1, most + 1) if batch % lanes == 0)

    @property
    def together(self) -> bool:
        """Whether several processes train."""
        return self.start == "hosts" or (self.processes or 1) > 1

    @classmethod
    def of(cls, section: dict) -> "AcceleratorSettings":
        """From the resolved section."""
        return cls(**(section | {"tpu": TpuNode(**section["tpu"])}))

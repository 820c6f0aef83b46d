"""Sections `accelerator` and `preflight`: the device, and what its compiler is asked ahead."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mlm.config.chips import target_problem
from mlm.config.fields import Section, Text, Threads, named_twice

#: Samples that are worth a lane of their own: with fewer, its matrices are too small to gain.
LEAST_IN_LANE = 16


class Accelerator(Section):
    kind: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    """Device to compute on. auto: this machine's TPU, else the GPUs, else the CPU."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the matrix products, and part of the result. auto: bfloat16 on TPUs and, with
    TensorFlow, on processors with instructions for it, else float32."""
    cpu_threads: Threads = 2
    """Threads of a CPU's arithmetic. They affect rounding, so that --cores does not set them."""
    virtual_replicas: Annotated[int, Field(ge=1, le=64)] | None = None
    """Rehearse this many replicas on logical CPU devices; null: as many as there are devices."""
    processes: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Processes that train a run together (engine: jax). null: one; with start: hosts, one each."""
    start: Literal["here", "srun", "hosts"] = "here"
    """How processes start. here: by the job, on its machine. srun: by the job through Slurm, as
    tasks on its nodes. hosts: by this same command on every host."""
    join_seconds: Annotated[int, Field(ge=1, le=604_800)] = 300
    """Seconds that a process waits for its peers."""
    deterministic: bool = True
    """On a GPU, use kernels that give the same bits every time, and part of the result. false: the
    fastest, so that two runs may end in different weights (engine: jax)."""

    def lanes(self, batch: int) -> int:
        """Equal parts of `batch` samples that a CPU computes at a time in TensorFlow, which is
        faster."""
        if self.virtual_replicas:
            return 1
        most = max(1, min(self.cpu_threads, batch // LEAST_IN_LANE))
        return max(lanes for lanes in range(1, most + 1) if batch % lanes == 0)

    @property
    def together(self) -> bool:
        """Whether several processes train."""
        return self.start == "hosts" or (self.processes or 1) > 1

    def contradictions(self) -> Iterator[str]:
        if self.virtual_replicas and self.kind == "gpu":
            yield "virtual_replicas: these are logical CPU devices; set kind to cpu (or tpu)"


class Preflight(Section):
    enabled: bool = False
    """Run the preflight with everything else and show it in the report."""
    required: bool = True
    """Train on a TPU only after a passed preflight, which accelerator.kind: tpu runs first."""
    targets: Annotated[list[Text], Field(min_length=1)] = [
        *("v3:2x2", "v4:2x2x1", "v5e:2x2", "v6e:2x2")
    ]
    """Topologies to compile for: a generation (v3, v4, v5e, v5p, v6e) and a grid of chips."""
    effort: Literal["auto", "quick", "full"] = "auto"
    """full: compile as for a training. quick: in a quarter of the time. auto: quick if large."""
    find_batch: bool = False
    """Search for the largest per-replica batch, up to 1,024, that fits each target."""

    def contradictions(self) -> Iterator[str]:
        yield from named_twice("targets", self.targets)
        yield from (f"targets: {line}" for t in self.targets if (line := target_problem(t)))

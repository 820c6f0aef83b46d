"""Section `accelerator`: the device, and how it computes."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field

from mlm.config.fields import NoBoolean, Section, Threads

#: Samples that are worth a lane of their own: with fewer, its matrices are too small to gain.
LEAST_IN_LANE = 16
#: The part of a GPU's memory that JAX takes when a training starts. The rest is for CUDA itself,
#: its libraries and a desktop.
GPU_MEMORY_SHARE = 0.9


class Accelerator(Section):
    kind: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    """Device to compute on. auto: this machine's TPU, else the GPUs, else the CPU."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the matrix products; it affects the result. auto: bfloat16 on TPUs and, with
    TensorFlow, on processors with instructions for it, else float32."""
    cpu_threads: Threads = 2
    """CPU threads for arithmetic. They affect rounding, so --cores does not set them."""
    virtual_replicas: Annotated[int, Field(ge=1, le=64), NoBoolean] | None = None
    """Number of replicas to rehearse on logical CPU devices; null: as many as there are devices."""
    processes: Annotated[int, Field(ge=1, le=65_536), NoBoolean] | None = None
    """Processes that train a run together (engine: jax); null: one. The job starts them, by srun if
    its resource mpi says so, else on its machine. With kind: tpu, or if JAX_COORDINATOR_ADDRESS is
    set, run the same command on every host."""
    deterministic: bool = True
    """On a GPU, use kernels that give the same bits every time; it affects the result. false: the
    fastest, which may differ from run to run (engine: jax)."""

    def lanes(self, batch: int) -> int:
        """Equal parts of `batch` samples that a CPU computes at a time in TensorFlow."""
        if self.virtual_replicas:
            return 1
        most = max(1, min(self.cpu_threads, batch // LEAST_IN_LANE))
        return max(lanes for lanes in range(1, most + 1) if batch % lanes == 0)

    def precision_on(self, kind: str, fast_bfloat16: bool = False) -> str:
        """What `precision` comes to on a device of `kind`, or on a CPU with `fast_bfloat16`."""
        if self.precision != "auto":
            return self.precision
        return "bfloat16" if kind == "tpu" or (kind == "cpu" and fast_bfloat16) else "float32"

    @property
    def for_evaluation(self) -> Self:
        """The section for an evaluation, in float32 whatever the precision of the training."""
        settings = {"precision": "float32", "deterministic": True, "processes": None}
        return self.model_copy(update=settings)

    def for_fold(self, cpu_threads: int) -> Self:
        """The section for a fold of the fine-tuning, one of several side by side."""
        return self.model_copy(
            update={"cpu_threads": cpu_threads, "deterministic": True, "processes": None}
        )

    @property
    def together(self) -> bool:
        """Whether several processes train."""
        return (self.processes or 1) > 1

    def contradictions(self) -> Iterator[str]:
        if self.virtual_replicas and self.kind == "gpu":
            yield "virtual_replicas: these are logical CPU devices; set kind to cpu (or tpu)"

"""Datasheet figures of the chips that a preflight can compile for.

TPUs: the page of each generation below https://cloud.google.com/tpu/docs/. A v3 chip is two
replicas, each a core with half of the HBM; the driver joins the cores of a v4 or v5p chip
("megacore") to one replica (https://github.com/pytorch/xla/issues/5258).

GPUs: NVIDIA's datasheets of the H100, H200, A100, L40S, L4 and T4, and its whitepapers of GA102
(RTX 3090) and Ada (RTX 4090); rates are without sparsity and with sums in float32. Memory is what
CUDA reports as a card's total, in messages of users; it is less than on the box. Cores, caches and
shared memory: XLA's own descriptions of cards (xla/backends/gpu/target_config/specs) as far as
there are any, else the whitepapers and the table of compute capabilities in the CUDA programming
guide.
"""

from dataclasses import dataclass

_GIB = 2**30
#: The part of a GPU's memory that JAX takes when a training starts. The rest is for CUDA itself,
#: its libraries and a desktop.
GPU_MEMORY_SHARE = 0.9


@dataclass(frozen=True)
class ChipFacts:
    """Figures of one chip; `largest_grid` is that of the chips in one slice, or of the GPUs in one
    machine. `float32_flops` is None where all products are made of bfloat16's."""

    generation: str
    hbm_bytes: int
    hbm_bytes_per_second: float
    bf16_flops: float
    replicas_per_chip: int
    largest_grid: tuple[int, ...]
    float32_flops: float | None = None

    @property
    def usable_bytes(self) -> int:
        """The memory that a training can have."""
        return self.hbm_bytes

    def peak_flops(self, precision: str) -> float:
        """Operations a second of products in `precision`."""
        return (precision == "float32" and self.float32_flops) or self.bf16_flops


@dataclass(frozen=True)
class GpuFacts(ChipFacts):
    """Figures of one GPU, with those that its compiler asks for: streaming multiprocessors
    ("cores") with their units for float32, threads and bytes of shared memory."""

    compute_capability: tuple[int, int] = (0, 0)
    cores: int = 0
    units_per_core: int = 0
    threads_per_core: int = 0
    shared_bytes_per_core: int = 0
    l2_bytes: int = 0
    clock_ghz: float = 0.0
    description: str = ""

    @property
    def usable_bytes(self) -> int:
        return int(self.hbm_bytes * GPU_MEMORY_SHARE)


def _by_name(*facts: ChipFacts) -> dict:
    return {each.generation: each for each in facts}


TPUS: dict[str, ChipFacts] = _by_name(
    ChipFacts("v3", 32 * _GIB, 900e9, 123e12, 2, (32, 32)),
    ChipFacts("v4", 32 * _GIB, 1200e9, 275e12, 1, (16, 16, 16)),
    ChipFacts("v5e", 16 * _GIB, 819e9, 197e12, 1, (16, 16)),
    ChipFacts("v5p", 95 * _GIB, 2765e9, 459e12, 1, (16, 16, 24)),
    ChipFacts("v6e", 32 * _GIB, 1638e9, 918e12, 1, (16, 16)),
)


def _gpu(name: str, gib: float, rates: tuple[float, float, float], *core) -> GpuFacts:
    """A GPU with the `rates` of its memory (bytes), of bfloat16 and of float32 (operations), each
    10^9 a second; `core` are the other fields in their order."""
    memory, bf16, float32 = (1e9 * rate for rate in rates)
    return GpuFacts(name, int(gib * _GIB), memory, bf16, 1, (8,), float32, *core)


_HOPPER = (9, 0), 132, 128, 2048, 233_472, 50 * 2**20, 1.98
_A100 = (8, 0), 108, 64, 2048, 167_936, 40 * 2**20, 1.41
GPUS: dict[str, GpuFacts] = _by_name(
    _gpu("h100", 79.1, (3352, 989_400, 66_900), *_HOPPER, "NVIDIA H100 80GB HBM3"),
    _gpu("h200", 139.7, (4800, 989_400, 66_900), *_HOPPER, "NVIDIA H200"),
    _gpu("a100-40gb", 39.3, (1555, 312_000, 19_500), *_A100, "NVIDIA A100-SXM4-40GB"),
    _gpu("a100-80gb", 79.1, (2039, 312_000, 19_500), *_A100, "NVIDIA A100-SXM4-80GB"),
    _gpu(
        *("l40s", 44.3, (864, 362_000, 91_600)),
        *((8, 9), 142, 128, 1536, 102_400, 96 * 2**20, 2.52, "NVIDIA L40S"),
    ),
    _gpu(
        *("l4", 22.0, (300, 121_000, 30_300)),
        *((8, 9), 58, 128, 1536, 102_400, 48 * 2**20, 2.04, "NVIDIA L4"),
    ),
    _gpu(
        *("rtx4090", 23.6, (1008, 165_200, 82_600)),
        *((8, 9), 128, 128, 1536, 102_400, 72 * 2**20, 2.52, "NVIDIA GeForce RTX 4090"),
    ),
    _gpu(
        *("rtx3090", 23.6, (936, 71_000, 35_600)),
        *((8, 6), 82, 128, 1536, 102_400, 6 * 2**20, 1.695, "NVIDIA GeForce RTX 3090"),
    ),
    # It has no units for bfloat16: those of float32 do the work.
    _gpu(
        *("t4", 14.5, (320, 8_100, 8_100)),
        *((7, 5), 40, 64, 1024, 65_536, 4 * 2**20, 1.59, "Tesla T4"),
    ),
)

CHIPS: dict[str, ChipFacts] = TPUS | GPUS

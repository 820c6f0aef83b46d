"""The chips that a preflight can compile for, with figures of their datasheets.

A target is named by its chips: "v5e:2x4" is a grid of TPU chips, "h100:8" eight GPUs of one
machine, "rtx4090" a single GPU.

TPUs: https://cloud.google.com/tpu/docs/. The driver joins the cores of a v4 or v5p chip
("megacore") to one replica. GPUs: NVIDIA's datasheets and the whitepapers of GA102 (RTX 3090) and
Ada (RTX 4090); rates are without sparsity and with sums in float32. Memory is what CUDA reports as
a card's total, less than on the box. Cores, caches and shared memory: XLA's descriptions of cards
(xla/backends/gpu/target_config/specs), else the whitepapers and the CUDA programming guide.
"""

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from mlm.config.accelerator import GPU_MEMORY_SHARE

_GIB = 2**30
_NAME = re.compile(r"[a-z0-9-]+(?::[1-9]\d{0,8}(?:x[1-9]\d{0,8})*)?")


@dataclass(frozen=True)
class Tpu:
    """A chip, which is one replica; all its products are made of bfloat16's. `configuration` is
    its name for libtpu where it is not the one that libtpu describes unasked."""

    gib: int
    teraflops: int
    #: Of the chips in one slice.
    largest_grid: tuple[int, ...]
    configuration: str | None = None

    @property
    def usable_bytes(self) -> int:
        """The memory that a training can have."""
        return self.gib * _GIB

    def peak_flops(self, precision: str) -> float:
        """Operations a second of products in `precision`."""
        return self.teraflops * 1e12


class Core(NamedTuple):
    """A streaming multiprocessor: compute capability, units for float32, threads, and bytes of
    shared memory."""

    compute_capability: tuple[int, int]
    units: int
    threads: int
    shared_bytes: int


@dataclass(frozen=True)
class Gpu:
    """A GPU, which is one replica: rates of its memory (bytes), of bfloat16 and of float32
    (operations), each 10^9 a second; number of its cores, MiB of the L2 cache, and GHz."""

    description: str
    gib: float
    rates: tuple[int, int, int]
    core: Core
    chip: tuple[int, int, float]
    #: Of the GPUs in one machine.
    largest_grid: tuple[int, ...] = (8,)

    @property
    def usable_bytes(self) -> int:
        """The memory that a training can have."""
        return int(int(self.gib * _GIB) * GPU_MEMORY_SHARE)

    def peak_flops(self, precision: str) -> float:
        """Operations a second of products in `precision`."""
        return 1e9 * self.rates[2 if precision == "float32" else 1]


TPUS = {
    "v4": Tpu(32, 275, (16, 16, 16), "megacore"),
    "v5e": Tpu(16, 197, (16, 16)),
    "v5p": Tpu(95, 459, (16, 16, 24)),
    "v6e": Tpu(32, 918, (16, 16)),
}


_TURING, _AMPERE = Core((7, 5), 64, 1024, 65_536), Core((8, 0), 64, 2048, 167_936)
_GA102, _ADA = Core((8, 6), 128, 1536, 102_400), Core((8, 9), 128, 1536, 102_400)
_HOPPER = Core((9, 0), 128, 2048, 233_472)
_A100, _RTX = (108, 40, 1.41), "NVIDIA GeForce RTX "
GPUS = {
    "h100": Gpu("NVIDIA H100 80GB HBM3", 79.1, (3352, 989_400, 66_900), _HOPPER, (132, 50, 1.98)),
    "h200": Gpu("NVIDIA H200", 139.7, (4800, 989_400, 66_900), _HOPPER, (132, 50, 1.98)),
    "a100-40gb": Gpu("NVIDIA A100-SXM4-40GB", 39.3, (1555, 312_000, 19_500), _AMPERE, _A100),
    "a100-80gb": Gpu("NVIDIA A100-SXM4-80GB", 79.1, (2039, 312_000, 19_500), _AMPERE, _A100),
    "l40s": Gpu("NVIDIA L40S", 44.3, (864, 362_000, 91_600), _ADA, (142, 96, 2.52)),
    "l4": Gpu("NVIDIA L4", 22.0, (300, 121_000, 30_300), _ADA, (58, 48, 2.04)),
    "rtx4090": Gpu(_RTX + "4090", 23.6, (1008, 165_200, 82_600), _ADA, (128, 72, 2.52)),
    "rtx3090": Gpu(_RTX + "3090", 23.6, (936, 71_000, 35_600), _GA102, (82, 6, 1.695)),
    # It has no units for bfloat16: those of float32 do the work.
    "t4": Gpu("Tesla T4", 14.5, (320, 8_100, 8_100), _TURING, (40, 4, 1.59)),
}

CHIPS: dict[str, Tpu | Gpu] = {**TPUS, **GPUS}


def chip_of(target: str) -> Tpu | Gpu:
    """The chip of a target: a v5e of "v5e:2x2"."""
    return CHIPS[target.partition(":")[0]]


def is_gpu(target: str) -> bool:
    return isinstance(chip_of(target), Gpu)


def number_of_chips(target: str) -> int:
    """Chips, and replicas, of a target: 8 of "v5e:2x4" and "h100:8", 1 of "h100"."""
    return math.prod(_grid(target))


def hosts_of(target: str) -> int:
    """Machines of `target`: each has four chips, or up to eight v5e, v6e or GPUs."""
    chips = number_of_chips(target)
    return 1 if len(chip_of(target).largest_grid) < 3 and chips <= 8 else max(1, chips // 4)


def _grid(target: str) -> tuple[int, ...]:
    _, _, grid = target.partition(":")
    return tuple(int(side) for side in (grid or "1").split("x"))


def existing_target(target: str) -> str:
    """Return `target`. Raises ValueError, in words, if nothing of that name can be compiled for."""
    chip = CHIPS.get(target.partition(":")[0])
    if chip and _NAME.fullmatch(target):
        grid, largest = _grid(target), chip.largest_grid
        within = all(1 <= side <= most for side, most in zip(grid, largest, strict=False))
        # A machine holds 2 × 2 chips of a slice.
        whole = is_gpu(target) or (len(grid) > 1 and grid[0] % 2 == grid[1] % 2 == 0)
        if within and len(grid) == len(largest) and whole:
            return target
    grids = ", ".join(f"{n} up to {'x'.join(map(str, t.largest_grid))}" for n, t in TPUS.items())
    raise ValueError(
        f"{target!r} is neither a GPU nor a TPU topology. Accepted are a GPU "
        f"({', '.join(GPUS)}), up to eight on one machine (h100:8), and a TPU generation with its "
        f"grid of chips (v5e:2x4 for v5litepod-8), whose first two sides are even: {grids}"
    )

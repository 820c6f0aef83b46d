"""What Google publishes of each TPU generation, and the names of its topologies.

From the page of each generation below https://cloud.google.com/tpu/docs/. The interconnect is
that of one direction of all of a chip's links. A v3 chip is two replicas, each a core with half of
the HBM; the driver joins the cores of a v4 or v5p chip ("megacore") to one replica
(https://github.com/pytorch/xla/issues/5258).
"""

import difflib
import math
import re
from dataclasses import dataclass

_GIB = 2**30


@dataclass(frozen=True)
class ChipFacts:
    """Datasheet figures of one chip; `largest_grid` is that of the chips in one slice."""

    generation: str
    hbm_bytes: int
    hbm_bytes_per_second: float
    bf16_flops: float
    interconnect_bytes_per_second: float
    replicas_per_chip: int
    largest_grid: tuple[int, ...]


CHIPS: dict[str, ChipFacts] = {
    facts.generation: facts
    for facts in (
        ChipFacts("v3", 32 * _GIB, 900e9, 123e12, 332e9, 2, (32, 32)),
        ChipFacts("v4", 32 * _GIB, 1200e9, 275e12, 269e9, 1, (16, 16, 16)),
        ChipFacts("v5e", 16 * _GIB, 819e9, 197e12, 200e9, 1, (16, 16)),
        ChipFacts("v5p", 95 * _GIB, 2765e9, 459e12, 600e9, 1, (16, 16, 24)),
        ChipFacts("v6e", 32 * _GIB, 1638e9, 918e12, 400e9, 1, (16, 16)),
    )
}

_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
#: Topologies by generation: the usual ones, not all that there are.
TOPOLOGIES = {
    "v3": (*(grid for grid in _FLAT if grid != "2x4"), "16x32", "32x32"),
    **{"v4": _DEEP, "v5e": _FLAT, "v5p": _DEEP, "v6e": _FLAT},
}

#: The configuration of a generation's chips, where it is not the one that libtpu describes unasked.
CHIP_CONFIGURATIONS = {"v4": "megacore"}

_TARGET = re.compile(r"([a-z0-9]+):(\d{1,9}(?:x\d{1,9})+)")


def generation_of(target: str) -> str:
    """The part of a target's name before the colon: "v5e" of "v5e:2x2"."""
    return target.split(":")[0]


def nearest_targets(target: str) -> list[str]:
    """The three targets most like `target`: "v5e-8" counts chips or TensorCores, "v5e:2x4" is a
    grid."""
    names = [f"{g}:{t}" for g, topologies in TOPOLOGIES.items() for t in topologies]
    asked = target.strip().lower()
    generation, chips = generation_of(asked), 0
    if marketed := re.fullmatch(r"(v\d+[a-z]*?)(?:litepod)?[-:](\d+)", asked):
        generation = {"v5": "v5e", "v5lite": "v5e", "v6": "v6e"}.get(marketed[1], marketed[1])
        # Up to v4 and for v5p the number counts TensorCores, of which a chip has two.
        chips = max(1, int(marketed[2]) // (1 if generation in ("v5e", "v6e") else 2))
    elif _TARGET.fullmatch(asked):
        chips = number_of_chips(asked)
    if same := [n for n in names if generation_of(n) == generation]:
        return sorted(same, key=lambda n: (abs(number_of_chips(n) - chips), n))[:3]
    return difflib.get_close_matches(asked, names, n=3, cutoff=0.0) or names[:3]


def number_of_chips(target: str) -> int:
    """Chips in the grid that a target names: 8 for "v5e:2x4"."""
    return math.prod(_grid(target))


def replicas_of(target: str) -> int:
    """Replicas that a training on `target` has: 4 for "v5e:2x2", 8 for "v3:2x2"."""
    return number_of_chips(target) * CHIPS[generation_of(target)].replicas_per_chip


def hosts_of(target: str, described: int) -> int:
    """Machines of `target`, of which libtpu describes `described`, one for every four chips. Those
    with a v5e or v6e have up to eight."""
    one_machine = generation_of(target) in ("v5e", "v6e") and number_of_chips(target) <= 8
    return 1 if one_machine else described


def target_problem(target: str) -> str | None:
    """What is wrong with the name of a target, in words; None where it can be compiled for."""
    if _TARGET.fullmatch(target) and (facts := CHIPS.get(generation_of(target))):
        grid, largest = _grid(target), facts.largest_grid
        within = all(1 <= side <= most for side, most in zip(grid, largest, strict=False))
        # A machine holds 2 × 2 chips of a slice.
        if within and len(grid) == len(largest) and grid[0] % 2 == grid[1] % 2 == 0:
            return None
    accepted = ", ".join(
        f"{g} up to {'x'.join(map(str, f.largest_grid))}" for g, f in CHIPS.items()
    )
    return (
        f"{target!r} is not a TPU topology; nearest: {', '.join(nearest_targets(target))}. Accepted"
        f" are a generation and its grid of chips, whose first two sides are even: {accepted}"
    )


def _grid(target: str) -> tuple[int, ...]:
    return tuple(int(side) for side in target.split(":")[1].split("x"))

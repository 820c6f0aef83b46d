"""Names of what a preflight compiles for: "v5e:2x4" is a grid of TPU chips, "h100:8" eight GPUs of
one machine, "rtx4090" a single GPU."""

import difflib
import math
import re

from mlm.config.chips import CHIPS, GPUS, TPUS

_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
#: Topologies by generation: the usual ones, not all that there are.
TOPOLOGIES = {
    "v3": (*(grid for grid in _FLAT if grid != "2x4"), "16x32", "32x32"),
    **{"v4": _DEEP, "v5e": _FLAT, "v5p": _DEEP, "v6e": _FLAT},
}

#: The configuration of a generation's chips, where it is not the one that libtpu describes unasked.
CHIP_CONFIGURATIONS = {"v4": "megacore"}

_GRID = re.compile(r"[a-z0-9]+:\d{1,9}(?:x\d{1,9})+")
_NAME = re.compile(r"[a-z0-9-]+(?::[1-9]\d{0,8}(?:x[1-9]\d{0,8})*)?")


def generation_of(target: str) -> str:
    """The part of a target's name before the colon: "v5e" of "v5e:2x2"."""
    return target.split(":")[0]


def is_gpu(target: str) -> bool:
    return generation_of(target) in GPUS


def nearest_targets(target: str) -> list[str]:
    """The three targets most like `target`: "v5e-8" counts chips or TensorCores, "v5e:2x4" is a
    grid, and "RTX 4090" is "rtx4090"."""
    names = [f"{g}:{t}" for g, topologies in TOPOLOGIES.items() for t in topologies]
    asked = target.strip().lower()
    generation, chips = generation_of(asked), 0
    if marketed := re.fullmatch(r"(v\d+[a-z]*?)(?:litepod)?[-:](\d+)", asked):
        generation = {"v5": "v5e", "v5lite": "v5e", "v6": "v6e"}.get(marketed[1], marketed[1])
        # Up to v4 and for v5p the number counts TensorCores, of which a chip has two.
        chips = max(1, int(marketed[2]) // (1 if generation in ("v5e", "v6e") else 2))
    elif _GRID.fullmatch(asked):
        chips = number_of_chips(asked)
    if same := [n for n in names if generation_of(n) == generation]:
        return sorted(same, key=lambda n: (abs(number_of_chips(n) - chips), n))[:3]
    card = re.sub(r"nvidia|geforce|tesla|[^a-z0-9]", "", asked.split(":")[0])
    if cards := [g for g in GPUS if card and card[:4] in g.replace("-", "")]:
        return cards[:3]
    return difflib.get_close_matches(asked, [*names, *GPUS], n=3, cutoff=0.0) or names[:3]


def number_of_chips(target: str) -> int:
    """Chips that a target names: 8 for "v5e:2x4" and "h100:8", 1 for "h100"."""
    return math.prod(_grid(target))


def replicas_of(target: str) -> int:
    """Replicas that a training on `target` has: 4 for "v5e:2x2", 8 for "v3:2x2"."""
    return number_of_chips(target) * CHIPS[generation_of(target)].replicas_per_chip


def memory_of_a_replica(target: str) -> int:
    """The bytes that a replica on `target` can have."""
    facts = CHIPS[generation_of(target)]
    return facts.usable_bytes // facts.replicas_per_chip


def hosts_of(target: str, described: int) -> int:
    """Machines of `target`, of which libtpu describes `described`, one for every four chips. Those
    with a v5e or v6e have up to eight."""
    one_machine = generation_of(target) in ("v5e", "v6e") and number_of_chips(target) <= 8
    return 1 if one_machine else described


def target_problem(target: str) -> str | None:
    """What is wrong with the name of a target, in words; None where it can be compiled for."""
    facts = CHIPS.get(generation_of(target))
    if facts and _NAME.fullmatch(target):
        grid, largest = _grid(target), facts.largest_grid
        within = all(1 <= side <= most for side, most in zip(grid, largest, strict=False))
        # A machine holds 2 × 2 chips of a slice.
        whole = is_gpu(target) or (len(grid) > 1 and grid[0] % 2 == grid[1] % 2 == 0)
        if within and len(grid) == len(largest) and whole:
            return None
    grids = ", ".join(f"{g} up to {'x'.join(map(str, f.largest_grid))}" for g, f in TPUS.items())
    return (
        f"{target!r} is neither a GPU nor a TPU topology; nearest: "
        f"{', '.join(nearest_targets(target))}. Accepted are a GPU ({', '.join(GPUS)}), up to "
        "eight on one machine (h100:8), and a TPU generation with its grid of chips, whose first "
        f"two sides are even: {grids}"
    )


def _grid(target: str) -> tuple[int, ...]:
    _, _, grid = target.partition(":")
    return tuple(int(side) for side in (grid or "1").split("x"))

"""Names of what a preflight compiles for: "v5e:2x4" is a grid of TPU chips, "h100:8" eight GPUs of
one machine, "rtx4090" a single GPU."""

import difflib
import math
import re

from mlm.config.chips import CHIPS, GPUS, TPUS

#: The configuration of a generation's chips, where it is not the one that libtpu describes unasked.
CHIP_CONFIGURATIONS = {"v4": "megacore"}

_NAME = re.compile(r"[a-z0-9-]+(?::[1-9]\d{0,8}(?:x[1-9]\d{0,8})*)?")


def generation_of(target: str) -> str:
    """The part of a target's name before the colon: "v5e" of "v5e:2x2"."""
    return target.split(":")[0]


def is_gpu(target: str) -> bool:
    return generation_of(target) in GPUS


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
    smallest = [f"{g}:{'2x2' if len(f.largest_grid) == 2 else '2x2x1'}" for g, f in TPUS.items()]
    names = target.strip().lower(), [*GPUS, *smallest]
    nearest = ", ".join(difflib.get_close_matches(*names, n=3, cutoff=0.0))
    grids = ", ".join(f"{g} up to {'x'.join(map(str, f.largest_grid))}" for g, f in TPUS.items())
    return (
        f"{target!r} is neither a GPU nor a TPU topology; nearest: {nearest}. Accepted "
        f"are a GPU ({', '.join(GPUS)}), up to "
        "eight on one machine (h100:8), and a TPU generation with its grid of chips (v5e:2x4 for "
        f"v5litepod-8), whose first two sides are even: {grids}"
    )


def _grid(target: str) -> tuple[int, ...]:
    _, _, grid = target.partition(":")
    return tuple(int(side) for side in (grid or "1").split("x"))

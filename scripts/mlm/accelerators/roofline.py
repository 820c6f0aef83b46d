"""From what XLA counts of a compiled program to a range of time, by the datasheet's peaks.

The roofline (Williams, Waterman and Patterson, 2009): a step takes at least as long as its
arithmetic at the chip's peak. No program reaches the peak, so the range is that of a stated
share of it. A compiler and datasheet estimate, not measured.
"""

import math
import re
from collections import Counter

from mlm.accelerators.artefacts import Collective, Estimate
from mlm.config.chips import ChipFacts

#: The lowest and the highest share of a chip's peak that is assumed.
UTILISATION = (0.2, 0.6)

#: Bytes of one number, by XLA's name of its type; what is smaller than a byte counts as one.
_SIZES = {
    **dict.fromkeys(("f64", "s64", "u64", "c64"), 8),
    **dict.fromkeys(("f32", "s32", "u32"), 4),
    **dict.fromkeys(("f16", "bf16", "s16", "u16"), 2),
    "c128": 16,
}
_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_COLLECTIVE = re.compile(rf"^ *(?:ROOT )?%?\S+ = (.+?) ({'|'.join(_KINDS)})(-start)?\((.*)$", re.M)
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\]")
#: Groups as lists of numbers, of which the first gives the size, or as [groups,size]<=[...].
_GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]*)\}|\[\d+,(\d+)\]<=)")


def collectives_of(hlo: str, replicas: int) -> list[Collective]:
    """What the replicas of a program send each other, from the text of its HLO, by kind.

    A loop's body counts once, as in XLA's own counts.
    """
    counts: Counter = Counter()
    sizes: Counter = Counter()
    for shape, kind, begun, rest in _COLLECTIVE.findall(hlo):
        groups = _GROUPS.search(rest)
        group = replicas
        if groups:
            group = int(groups[2]) if groups[2] else groups[1].count(",") + 1
        arrays = [_size(*array) for array in _ARRAY.findall(shape)]
        if begun and kind == "all-gather":
            # Inputs are listed before outputs.
            arrays = arrays[len(arrays) // 2 :]
        elif begun and kind == "collective-permute":
            arrays = arrays[1:2]
        counts[kind, group] += 1
        sizes[kind, group] += sum(arrays) * (group if kind == "reduce-scatter" else 1)
    return [
        Collective(kind, group, counts[kind, group], sizes[kind, group])
        for kind, group in sorted(counts, key=lambda key: (_KINDS.index(key[0]), key[1]))
    ]


def _size(kind: str, shape: str) -> int:
    return _SIZES.get(kind, 1) * math.prod(int(side) for side in shape.split(",") if side)


def bytes_sent(collective: Collective, replicas_per_chip: int = 1) -> float:
    """What each chip of the group sends, at least, where its chips form a ring.

    2(n-1)/n of an array to sum it up on n chips, half of that to gather or to divide it (Thakur,
    Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005).
    The replicas of one chip send each other nothing.
    """
    chips = collective.replicas / replicas_per_chip
    if chips <= 1:
        return 0.0
    if collective.kind == "collective-permute":
        return float(collective.bytes)
    rounds = 2 if collective.kind == "all-reduce" else 1
    return rounds * (chips - 1) / chips * collective.bytes


def estimate(
    facts: ChipFacts,
    *,
    flops: float,
    bytes_accessed: float,
    replicas: int,
    chips: int,
    steps: int,
    collectives: list[Collective],
) -> Estimate:
    """The range for a step of `flops` operations and `collectives` on each replica."""
    share = chips / replicas  # of a chip that one replica has
    at_peak = flops / (facts.bf16_flops * share)
    seconds = [at_peak / used for used in reversed(UTILISATION)]
    sent = sum(bytes_sent(each, facts.replicas_per_chip) for each in collectives)
    return Estimate(
        step_seconds=tuple(map(_rounded, seconds)),
        run_seconds=tuple(_rounded(each * steps) for each in seconds),
        bandwidth_seconds=_rounded(bytes_accessed / (facts.hbm_bytes_per_second * share)),
        collective_seconds=_rounded(sent / facts.interconnect_bytes_per_second),
        steps=steps,
        utilisation=UTILISATION,
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")

"""What the devices of a compiled program send each other, from the text of its HLO.

A loop's body counts once, as in XLA's own counts.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass

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
#: Groups as lists of numbers, of which the first tells the size, or as [groups,size]<=[...].
_GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]*)\}|\[\d+,(\d+)\]<=)")


@dataclass(frozen=True)
class Collective:
    """All operations of one `kind` in a program whose groups have `replicas` replicas.

    `bytes` are those of the whole arrays that are summed up, gathered or divided, on one replica.
    """

    kind: str
    replicas: int
    count: int
    bytes: int


def collectives_of(hlo: str, replicas: int) -> list[Collective]:
    """The collectives of a program for `replicas` replicas, in the order of their kinds."""
    counts: Counter = Counter()
    sizes: Counter = Counter()
    for shape, kind, begun, rest in _COLLECTIVE.findall(hlo):
        groups = _GROUPS.search(rest)
        group = replicas
        if groups:
            group = int(groups[2]) if groups[2] else groups[1].count(",") + 1
        arrays = [_size(*array) for array in _ARRAY.findall(shape)]
        if begun and kind == "all-gather":
            # What goes in stands before what comes out.
            arrays = arrays[len(arrays) // 2 :]
        elif begun and kind == "collective-permute":
            arrays = arrays[1:2]
        size = sum(arrays) * (group if kind == "reduce-scatter" else 1)
        counts[kind, group] += 1
        sizes[kind, group] += size
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

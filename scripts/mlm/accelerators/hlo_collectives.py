"""What the replicas of a compiled program send each other, from the text of its HLO."""

import math
import re
from collections import Counter

from mlm.accelerators.artefacts import Collective

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
    """The collectives in `hlo` by kind; a loop's body counts once, as in XLA's own counts."""
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

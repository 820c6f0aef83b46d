"""How two nested values differ, such as the settings of a saved state and those of now."""

from typing import Any

#: In the place of a value that one of the two lacks.
ABSENT = "(absent)"


def differing_leaves(before: Any, now: Any, way: tuple[str, ...] = ()) -> list[tuple]:
    """The keys that lead to each leaf in which two nested values differ, and its two values."""
    if before == now:
        return []
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return [(way, before, now)]
    return [
        leaf
        for key in sorted(before.keys() | now.keys())
        for leaf in differing_leaves(
            before.get(key, ABSENT), now.get(key, ABSENT), (*way, str(key))
        )
    ]


def differences(before: Any, now: Any) -> list[str]:
    """A line for each leaf in which two nested values differ."""
    lines = []
    for way, old, new in differing_leaves(before, now):
        name = ".".join(way)
        if way[:1] in (("code",), ("manifests",), ("tokenizer",)):
            lines.append(f"{name.replace('code.', 'code ', 1)} is another")
        else:
            lines.append(f"{name}: {old!r} then, {new!r} now")
    return lines

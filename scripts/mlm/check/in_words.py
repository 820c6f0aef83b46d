"""The stages of a run as a table for the terminal."""

import os

from mlm.check.estimate import Stage
from mlm.check.sampled_text import shown

_HEADINGS = ("stage", "time", "disk", "memory, at most", "there already")


def table(answer) -> str:
    """All stages, and what they come to, aligned."""
    rows = [_HEADINGS, *(_row(stage) for stage in [*answer.stages, answer.total])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    cores = len(os.sched_getaffinity(0))
    said = f"Times are from nothing, with --cores {cores}, with the machine to itself"
    if answer.total.took:
        said += f"; {in_time(answer.total.took.cpu)} of processor time"
    return "\n".join([*lines, said + "."])


def _row(stage: Stage) -> tuple[str, ...]:
    return (
        stage.name,
        in_time(stage.took.seconds) if stage.took else "not known",
        shown(stage.disk) if stage.disk is not None else "not known",
        shown(stage.memory_mb * 1e6) if stage.memory_mb else "",
        stage.there,
    )


def in_time(seconds: float) -> str:
    """A span in the unit that suits it."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"

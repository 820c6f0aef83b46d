"""The files that evaluation and fill-mask write: their version and rounding."""

import os
from typing import Any

from mlm.results.artefacts import write_artefact

FORMAT_VERSION = 1

#: Significant digits of every number in the file. A loss of 10 nats is then right to 1e-6,
#: and what another processor or batch size changes in the last bits of float32 is not shown.
DIGITS = 7


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """`value`, JSON-like, with every float at `digits` significant digits."""
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def write_figures(path: str | os.PathLike, value: dict) -> None:
    """Write `value` with its format version, rounded, atomically."""
    write_artefact(path, rounded({"format_version": FORMAT_VERSION, **value}))

"""Weights as safetensors: no pickle, and the same weights are the same bytes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mlm.foundations.atomic import replacing


def write_weights(weights: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write a safetensors file atomically; same weights, same bytes."""
    from safetensors.numpy import save

    arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in sorted(weights.items())}
    # Written here, so that a full disk is the system's error and not the library's own.
    content = save(arrays, metadata={"format": "pt"})
    with replacing(path) as temporary:
        temporary.write_bytes(content)

"""Random initial weights."""

import math

import numpy as np

from mlm.model.architecture import Architecture, parameter_shapes


def initial_parameters(architecture: Architecture, seed: int) -> dict[str, np.ndarray]:
    """Weights float32 by name, a function of `seed`: norms 1, biases 0, the rest normal with
    initializer_range, in what ModernBERT adds to the residual, and its head, over √(2 · layers)."""
    a, weights = architecture, {}
    smaller = (a.names.attended, a.names.output, a.names.head_dense) if a.gated else ()
    for number, (name, shape) in enumerate(parameter_shapes(a).items(), start=1):
        if len(shape) == 1:
            weights[name] = np.full(shape, 0 if name.endswith("bias") else 1, np.float32)
            continue
        ends = name.endswith(tuple(f"{part}.weight" for part in smaller))
        deviation = a.initializer_range / (math.sqrt(2 * a.layers) if ends else 1)
        weights[name] = normal(seed, number, shape, deviation)
    return weights


def normal(seed: int, number: int, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    """Normal numbers, float32 of `shape`, from the stream `number` of `seed`."""
    random = np.random.Generator(np.random.Philox(key=[seed, number]))
    return random.standard_normal(shape, np.float32) * np.float32(deviation)

"""Random initial weights, and what `model.initialisation` overwrites of them."""

import math
from dataclasses import dataclass

import numpy as np

from mlm.config.families import Names
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


@dataclass(frozen=True)
class StartingWeights:
    """Weights `by_name`, float32, changed in place by the roles that an initialisation knows."""

    by_name: dict[str, np.ndarray]
    architecture: Architecture

    @property
    def _names(self) -> Names:
        return self.architecture.names

    def table(self, role: str) -> np.ndarray:
        """Return a copy of the table [rows, width] of "words" or of "positions"."""
        return self.by_name[f"{getattr(self._names, role)}.weight"].copy()

    def set_table(self, role: str, table: np.ndarray) -> None:
        self._set(f"{getattr(self._names, role)}.weight", table)

    def set_attention(self, layer: int, **kernels: np.ndarray) -> None:
        """Set the kernels [inputs, outputs] of a layer's query, key, value or output."""
        names, prefix = self._names, self.architecture.layer_prefix(layer)
        if "output" in kernels:
            self._set(f"{prefix}{names.attended}.weight", kernels["output"].T)
        stored = [f"{prefix}{name}.weight" for name in names.projections]
        joined = np.concatenate([self.by_name[name] for name in stored])
        for role, part in zip(("query", "key", "value"), np.split(joined, 3), strict=True):
            if role in kernels:
                part[:] = kernels[role].T
        for name, part in zip(stored, np.split(joined, len(stored)), strict=True):
            self._set(name, part)

    def set_output_bias(self, bias: np.ndarray) -> None:
        # A ModernBERT may be without.
        if self._names.decoder_bias in self.by_name:
            self._set(self._names.decoder_bias, bias)

    def _set(self, name: str, value: np.ndarray) -> None:
        self.by_name[name] = np.ascontiguousarray(value, np.float32)

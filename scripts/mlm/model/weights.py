"""The weights of an encoder: how they begin, and how they are read."""

import math
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError, reading
from mlm.model.architecture import Architecture, parameter_shapes


def initial_parameters(architecture: Architecture, key) -> dict[str, jax.Array]:
    """Weights float32 by name, of the random `key`: norms 1, biases 0, the rest normal with
    initializer_range, in what ModernBERT adds to the residual, and its head, over √(2 · layers)."""
    a, found = architecture, {}
    shapes = parameter_shapes(a)
    smaller = (a.names.attended, a.names.output, a.names.head_dense) if a.gated else ()
    for own, (name, shape) in zip(jax.random.split(key, len(shapes)), shapes.items(), strict=True):
        if len(shape) == 1:
            value = jnp.zeros(shape) if name.endswith("bias") else jnp.ones(shape)
        else:
            ends = name.endswith(tuple(f"{part}.weight" for part in smaller))
            deviation = a.initializer_range / (math.sqrt(2 * a.layers) if ends else 1)
            value = deviation * jax.random.normal(own, shape, jnp.float32)
        found[name] = value
    return found


def read_parameters(path: str | Path, architecture: Architecture) -> dict[str, np.ndarray]:
    """The architecture's weights in a safetensors file, as `fitting` gives them."""
    from safetensors.numpy import load_file

    with reading(path, "safetensors"):
        stored = load_file(path)
    return fitting(stored, architecture, path)


def fitting(
    stored: Mapping[str, np.ndarray],
    architecture: Architecture,
    path: str | Path,
    without: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """The architecture's weights among those that `path` has, float32 by name, but for names that
    begin as one of `without`. Raises MlmError if one is missing or has another shape."""
    shapes = parameter_shapes(architecture)
    shapes = {name: shape for name, shape in shapes.items() if not name.startswith(without)}
    for name, shape in shapes.items():
        found = stored[name].shape if name in stored else "nothing"
        if found != shape:
            raise MlmError(
                f"{path}: {name}: found {found}, expected {shape}. Give the model.safetensors and "
                f"the config.json of one model of the family {architecture.family}"
            )
    layer = architecture.names.layer
    if beyond := sorted(n for n in stored if n.startswith(layer) and n not in shapes):
        raise MlmError(
            f"{path}: {beyond[0]} and {len(beyond) - 1} more: found weights of layers that "
            "config.json lacks. Give the model.safetensors and the config.json of one model"
        )
    return {name: stored[name].astype(np.float32) for name in shapes}


def read_exported(directory: str | Path) -> tuple[Architecture, dict[str, np.ndarray]]:
    """Architecture and weights, float32 by name, of a directory with config.json and
    model.safetensors. Raises as `read_parameters` and `Architecture.of`."""
    architecture = Architecture.of(read_json(Path(directory) / "config.json"))
    return architecture, read_parameters(Path(directory) / "model.safetensors", architecture)

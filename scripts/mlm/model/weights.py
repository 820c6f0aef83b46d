"""The weights of an encoder: how they begin, and how they are written and read, in PyTorch's names
and layout, which all three frameworks open."""

import copy
import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.families import FAMILIES
from mlm.config.model_fields import in_numbers
from mlm.foundations.atomic import read_json, write_json, write_weights
from mlm.foundations.errors import MlmError, reading
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.model_files import read_tensors


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


def fitting(
    stored: Mapping[str, np.ndarray],
    architecture: Architecture,
    place: str | Path,
    without: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """The architecture's weights among those that `place` has, float32 by name, but for those
    `without`. Raises MlmError if one is missing or has another shape, or for weights of layers that
    the network lacks: its config.json has fewer or other layers."""
    every = parameter_shapes(architecture)
    shapes = {name: shape for name, shape in every.items() if name not in without}
    remedy = "Give the model.safetensors and the config.json of one model"
    for name, shape in shapes.items():
        stored_shape = stored[name].shape if name in stored else "nothing"
        if stored_shape != shape:
            raise MlmError(f"{place}: {name}: found {stored_shape}, expected {shape}. {remedy}")
    prefix = re.escape(FAMILIES[architecture.family].encoder_prefix)
    in_layer = re.compile(prefix + r"(.*\.)?\d+\..*(weight|bias)$")
    if beyond := sorted(name for name in stored if name not in every and in_layer.match(name)):
        raise MlmError(
            f"{place}: {beyond[0]} and {len(beyond) - 1} more: found weights of layers that "
            f"config.json lacks. {remedy}"
        )
    return {name: stored[name].astype(np.float32) for name in shapes}


def read_exported(directory: str | Path) -> tuple[Architecture, dict[str, np.ndarray]]:
    """Architecture and weights, float32 by name, of a directory with config.json and
    model.safetensors. Raises MlmError as `fitting` and `Architecture.of`."""
    config, file = Path(directory) / "config.json", Path(directory) / "model.safetensors"
    with reading(config, "a model's configuration"):
        fields = read_json(config)
    architecture = Architecture.of(fields)
    with reading(file, "safetensors"):
        stored = read_tensors(file)
    return architecture, fitting(stored, architecture, file)


def write_exported(directory: str | Path, weights: Mapping[str, np.ndarray], config: Any) -> None:
    """Write model.safetensors, by PyTorch's names, and config.json, of transformers' class, with
    the architecture's name in PyTorch, as readers expect it."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    write_weights(weights, f"{directory}/model.safetensors")
    config = copy.deepcopy(config)
    config.architectures = [MODEL_FOR_MASKED_LM_MAPPING_NAMES[config.model_type]]
    config.dtype = "float32"
    fields = config.to_dict()
    fields.pop("_name_or_path", None)
    # For transformers 5, and in numbers for version 4.
    write_json(f"{directory}/config.json", fields | in_numbers(fields))

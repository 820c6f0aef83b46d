"""The weights of an encoder: how they begin, and how they are written and read, in PyTorch's names
and layout, which all three frameworks open."""

import copy
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.families import FAMILIES
from mlm.config.model_fields import in_numbers
from mlm.foundations.atomic import read_json, write_json, write_weights
from mlm.foundations.errors import MlmError, reading
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
    if beyond := weights_beyond(stored, shapes, architecture.family):
        raise MlmError(
            f"{path}: {beyond[0]} and {len(beyond) - 1} more: found weights of layers that "
            "config.json lacks. Give the model.safetensors and the config.json of one model"
        )
    return {name: stored[name].astype(np.float32) for name in shapes}


def weights_beyond(stored: Iterable[str], known: Collection[str], family: str) -> list[str]:
    """Weights of layers that the network lacks: its config.json has fewer or other layers."""
    prefix = re.escape(FAMILIES[family].encoder_prefix)
    in_layer = re.compile(prefix + r"(.*\.)?\d+\..*(weight|bias)$")
    return sorted(name for name in stored if name not in known and in_layer.match(name))


def read_exported(directory: str | Path) -> tuple[Architecture, dict[str, np.ndarray]]:
    """Architecture and weights, float32 by name, of a directory with config.json and
    model.safetensors. Raises as `read_parameters` and `Architecture.of`."""
    file = Path(directory) / "config.json"
    with reading(file, "a model's configuration"):
        fields = read_json(file)
    architecture = Architecture.of(fields)
    return architecture, read_parameters(Path(directory) / "model.safetensors", architecture)


@dataclass(frozen=True)
class ExportedModel:
    """Weights float32 by PyTorch's names, and the configuration, transformers' class."""

    weights: dict[str, np.ndarray]
    config: Any

    def write(self, directory: str | Path) -> None:
        """Write model.safetensors and config.json."""
        write_weights(self.weights, f"{directory}/model.safetensors")
        write_configuration(self.config, f"{directory}/config.json")


def write_configuration(config: Any, path: str | Path) -> None:
    """Write `config.json` with the architecture's name in PyTorch, as readers expect it."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config = copy.deepcopy(config)
    config.architectures = [MODEL_FOR_MASKED_LM_MAPPING_NAMES[config.model_type]]
    config.dtype = "float32"
    fields = config.to_dict()
    fields.pop("_name_or_path", None)
    # For transformers 5, and in numbers for version 4.
    write_json(path, fields | in_numbers(fields))

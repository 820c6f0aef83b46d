"""An exported folder, config.json and model.safetensors, as the encoder takes it."""

from pathlib import Path

import numpy as np

from mlm.foundations.atomic import read_json
from mlm.model.architecture import Architecture
from mlm.model.weights import read_parameters


def read_exported(directory: str | Path) -> tuple[Architecture, dict[str, np.ndarray]]:
    """Architecture and weights, float32 by name.

    Raises MlmError where a file is missing or damaged, or a weight of the architecture is not there
    or has another shape, and ConfigError for an architecture that is not built here.
    """
    architecture = Architecture.of(read_json(Path(directory) / "config.json"))
    return architecture, read_parameters(Path(directory) / "model.safetensors", architecture)

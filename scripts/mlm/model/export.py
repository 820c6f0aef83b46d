"""The trained model as files in PyTorch's names and layout, which all three frameworks open."""

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.config.model_fields import in_numbers
from mlm.foundations.atomic import write_json, write_weights


@dataclass(frozen=True)
class ExportedModel:
    """Weights float32 by PyTorch's names, and the configuration, transformers' class."""

    weights: dict[str, np.ndarray]
    config: object

    def write(self, place: str) -> None:
        """Write weights and configuration below the directory `place`."""
        write_weights(self.weights, f"{place}/model.safetensors")
        write_configuration(self.config, f"{place}/config.json")


def write_configuration(config, path: str | Path) -> None:
    """Write `config.json` with the architecture's name in PyTorch, as readers expect it."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config = copy.deepcopy(config)
    config.architectures = [MODEL_FOR_MASKED_LM_MAPPING_NAMES[config.model_type]]
    config.dtype = "float32"
    fields = config.to_dict()
    fields.pop("_name_or_path", None)
    # For transformers 5, and in numbers for version 4.
    write_json(path, fields | in_numbers(fields))

"""The trained model as files that TensorFlow, Flax and PyTorch open alike.

PyTorch's names and layout are the one form that the three read from safetensors. The names
come from transformers' own table; no PyTorch is needed to write them.
"""

import copy
import os
import tempfile
from pathlib import Path

import numpy as np

from mlm.foundations.atomic import replacing, write_json
from mlm.foundations.errors import MlmError
from mlm.foundations.framework import tf


def pytorch_weights(model) -> dict[str, np.ndarray]:
    """The model's weights by PyTorch name, in PyTorch's layout, float32.

    Raises MlmError where two weights would have one name.
    """
    from transformers.modeling_tf_pytorch_utils import (
        apply_transpose,
        convert_tf_weight_name_to_pt_weight_name,
    )

    weights = {}
    for variable in model.weights:
        name, transpose = convert_tf_weight_name_to_pt_weight_name(
            variable.name, tf_weight_shape=variable.shape
        )
        if name in weights:
            raise MlmError(
                f"model: two weights of {type(model).__name__} have the one name {name} in the "
                "exported file, so that one would be lost. Choose another model.family"
            )
        value = np.asarray(variable.numpy(), dtype=np.float32)
        value = np.asarray(apply_transpose(transpose, value, match_shape=None))
        weights[name] = np.ascontiguousarray(value)
    return dict(sorted(weights.items()))


def write_weights(model, path: str | Path) -> None:
    """Write `model.safetensors` atomically; same weights, same bytes."""
    from safetensors.numpy import save

    # Written here, so that a full disk is the system's error and not the library's own.
    content = save(pytorch_weights(model), metadata={"format": "pt"})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def export_model(model, place: str) -> None:
    """Write weights and configuration below `place`, a directory or a gs:// prefix."""
    if "://" not in place:
        write_weights(model, f"{place}/model.safetensors")
        write_configuration(model, f"{place}/config.json")
        return
    with tempfile.TemporaryDirectory() as local:
        export_model(model, local)
        tf.io.gfile.makedirs(place)
        for name in sorted(os.listdir(local)):
            tf.io.gfile.copy(f"{local}/{name}", f"{place}/{name}", overwrite=True)


def write_configuration(model, path: str | Path) -> None:
    """Write `config.json` with the architecture's name in PyTorch, as readers expect it."""
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__.removeprefix("TF")]
    config.torch_dtype = "float32"
    fields = config.to_dict()
    fields.pop("_name_or_path", None)
    write_json(path, fields)

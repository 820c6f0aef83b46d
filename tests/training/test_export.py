"""The trained model as files: what they hold, and that they give the model back.

tests/pytorch and tests/transformers4 open them with transformers' own classes.
"""

import json

import numpy as np
import pytest
from exported_families import export
from safetensors import safe_open

from mlm.config.families import FAMILIES
from mlm.model.architecture import parameter_shapes
from mlm.model.model_files import read_exported


@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_holds_every_weight_and_gives_the_model_back(tmp_path, family):
    place = tmp_path / "model"
    written, architecture = export(family, place)
    with safe_open(place / "model.safetensors", "numpy") as file:
        # Without it, readers refuse the file.
        assert file.metadata() == {"format": "pt"}
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    shapes = {name: value.shape for name, value in stored.items()}
    assert shapes == parameter_shapes(architecture)
    assert all(value.dtype == np.float32 for value in stored.values())
    fields = json.loads((place / "config.json").read_text())
    (name,) = fields["architectures"]
    assert name.endswith("ForMaskedLM") and name.lower().startswith(family.replace("-", ""))
    assert "_name_or_path" not in fields
    opened, weights = read_exported(place)
    assert opened == architecture and weights.keys() == written.keys()
    assert all(np.array_equal(weights[name], written[name]) for name in weights)

"""The table of the fields that each family's network reads, against transformers itself."""

import json

import pytest
import transformers

from mlm.config.families import JAX_FAMILIES, TENSORFLOW_FAMILIES
from mlm.config.model_fields import unbuilt_fields, unknown_fields
from mlm.config.resolution import resolve
from mlm.foundations.errors import ConfigError


@pytest.mark.parametrize("family", sorted({*TENSORFLOW_FAMILIES, *JAX_FAMILIES}))
def test_every_field_of_the_library_has_a_place_in_the_table(family):
    config = transformers.AutoConfig.for_model(family)
    fields = {name: value for name, value in config.to_dict().items() if value is not None}
    aliases = {name: fields[own] for name, own in config.attribute_map.items()}
    engine = "tensorflow" if family in TENSORFLOW_FAMILIES else "jax"
    assert not [*unknown_fields(fields | aliases, family)]
    assert not [*unbuilt_fields(fields, family, engine)]


def test_a_published_file_may_say_what_changes_nothing():
    fields = {"layer_norm_eps": 1e-5, "initializer_cutoff_factor": 2.0, "reference_compile": True}
    assert not [*unknown_fields(fields, "modernbert")]
    told = [*unknown_fields({"layer_norm_eps": 1e-3, "rotary_value": None}, "modernbert")]
    assert len(told) == 1 and told[0].startswith("layer_norm_eps")


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("pruned_heads", {"0": [1]}, "{}"),
        ("hidden_act", "gelu_nwe", "did you mean 'gelu_new'"),
        ("hiden_size", 64, "did you mean 'hidden_size'"),
    ],
)
def test_a_field_that_the_network_does_not_read_is_refused_by_the_plan(
    tmp_path, engine, name, value, expected
):
    content = {"model_type": "roberta", name: value}
    (tmp_path / "config.json").write_text(json.dumps(content))
    sections = [
        {"family": "roberta", "config": {name: value}},
        {"config_file": str(tmp_path / "config.json")},
    ]
    for section in sections:
        section["initialisation"] = {"attention": "standard"}
        with pytest.raises(ConfigError) as refusal:
            resolve({"model": section, "pretraining": {"engine": engine}})
        (problem,) = refusal.value.problems
        assert name in problem and expected in problem

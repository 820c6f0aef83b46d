"""The table of the fields that each family's network reads, against transformers itself."""

import json

import numpy as np
import pytest
import transformers

from mlm.config.families import FAMILIES
from mlm.config.model_fields import ACTIVATIONS, in_numbers, unbuilt_fields, unknown_fields
from mlm.config.resolution import resolve
from mlm.foundations.errors import ConfigError
from mlm.model.network import Network, ops_of


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_of_the_library_has_a_place_in_the_table(family):
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family].required_fields)
    fields = in_numbers({n: value for n, value in config.to_dict().items() if value is not None})
    aliases = {name: fields[own] for name, own in config.attribute_map.items()}
    assert FAMILIES[family].own_names.items() >= config.attribute_map.items()
    assert not [*unknown_fields(fields | aliases, family)]
    assert not [*unbuilt_fields(fields, family)]
    read = FAMILIES[family].fields.values()
    # Fields of transformers 5 alone, and those that an ESM must be told.
    later = {"rope_theta", "mask_token_id", "vocab_size"} if family == "esm" else set()
    assert {f.name: f.default for f in read if f.default is not None and f.name not in later} == {
        f.name: fields[f.name] for f in read if f.default is not None and f.name not in later
    }
    assert {f.name for f in read} - later <= fields.keys()


ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
}
LOCAL, GLOBAL = "sliding_attention", "full_attention"


def modernbert(**fields) -> dict:
    return in_numbers({"model_type": "modernbert", **fields})


@pytest.mark.parametrize(
    ("types", "stored", "every"),
    [
        ([GLOBAL, LOCAL, LOCAL, GLOBAL, LOCAL], None, 3),
        ([GLOBAL, GLOBAL], None, 1),
        ([GLOBAL, LOCAL], None, 2),
        ([GLOBAL, LOCAL], 3, 3),
        ([GLOBAL, LOCAL, GLOBAL], 3, 2),
    ],
)
def test_a_modernbert_of_version_5_is_read_in_numbers(types, stored, every):
    fields = modernbert(rope_parameters=ROPE, layer_types=types, global_attn_every_n_layers=stored)
    assert fields == {
        "model_type": "modernbert",
        "global_attn_every_n_layers": every,
        "global_rope_theta": 500.0,
        "local_rope_theta": 100.0,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layer_types", [LOCAL, GLOBAL]),
        ("layer_types", [GLOBAL, GLOBAL, LOCAL]),
        ("layer_types", 7),
        ("rope_parameters", {GLOBAL: ROPE[GLOBAL]}),
        ("rope_parameters", ROPE | {LOCAL: {"rope_type": "yarn", "rope_theta": 1.0}}),
        ("rope_parameters", "yarn"),
    ],
)
def test_another_network_of_version_5_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        modernbert(**{name: value})


def test_a_published_file_may_say_what_changes_nothing():
    fields = {"layer_norm_eps": 1e-5, "initializer_cutoff_factor": 2.0, "reference_compile": True}
    assert not [*unknown_fields(fields, "modernbert"), *unbuilt_fields(fields, "modernbert")]
    (told,) = unbuilt_fields({"layer_norm_eps": 1e-3, "rotary_value": None}, "modernbert")
    assert told.startswith("layer_norm_eps")


def test_a_file_without_a_field_means_what_it_means_to_transformers(tmp_path):
    """An ESM's positions are absolute unless its config.json says otherwise; a new one's not."""
    (tmp_path / "config.json").write_text('{"model_type": "esm"}')
    esm, standard = {"family": "esm"}, {"initialisation": {"attention": "standard"}}
    resolve({"model": esm | standard})
    with pytest.raises(ConfigError) as refusal:
        resolve({"model": {"config_file": str(tmp_path / "config.json")} | standard})
    (problem,) = refusal.value.problems
    assert "position_embedding_type: found nothing" in problem and "set it" in problem


def test_the_network_computes_every_activation_that_the_plan_accepts():
    network = Network(None, ops_of("jax"))
    for name in ACTIVATIONS:
        assert network.activated(name, np.float32([1.0])).shape == (1,)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("pruned_heads", {"0": [1]}, "{}"),
        ("hidden_act", "gelu_nwe", "did you mean 'gelu_new'"),
        ("hiden_size", 64, "did you mean 'hidden_size'"),
    ],
)
def test_a_field_that_the_network_does_not_read_is_refused_by_the_plan(
    tmp_path, name, value, expected
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
            resolve({"model": section})
        (problem,) = refusal.value.problems
        assert name in problem and expected in problem

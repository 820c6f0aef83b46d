"""The section `model`: families, config files, and what of the defaults applies to them."""

import json
from pathlib import Path

import pytest

from mlm.configuration import load_schema, model_of_run, resolve
from mlm.errors import ConfigError
from mlm.pretraining.model_settings import FAMILIES, NEIGHBOUR_FAMILIES, REFUSED_FAMILIES

SCHEMA = load_schema(Path(__file__).parents[2] / "schemas" / "config.schema.yaml")
SIZES = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}


def model(section: dict, run: str = "base", **runs) -> dict:
    config = resolve({"model": section, "runs": {"base": {}} | runs}, SCHEMA)
    return model_of_run(config, run, SCHEMA)


@pytest.fixture()
def config_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", **SIZES}))
    return path


def test_the_families_are_those_of_the_pinned_transformers():
    from transformers.models.auto.modeling_tf_auto import TF_MODEL_FOR_MASKED_LM_MAPPING_NAMES

    from mlm.pretraining import initialisation

    assert {*FAMILIES, *REFUSED_FAMILIES} == set(TF_MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    assert set(NEIGHBOUR_FAMILIES) == set(initialisation._FAMILIES)


def test_a_config_file_is_not_overridden_by_defaults(config_file):
    found = model({"config_file": str(config_file), "config": {"intermediate_size": 200}})
    assert found["config_file"] == {"model_type": "bert", **SIZES}
    assert found["config"] == {"intermediate_size": 200}


def test_a_run_with_a_config_file_leaves_the_other_runs_their_sizes(config_file):
    runs = {"other": {"model": {"config_file": str(config_file)}}}
    assert model({}, "other", **runs)["config"] == {}
    assert model({}, "base", **runs)["config"]["hidden_size"] == 128


def test_an_edited_config_file_is_another_model(config_file):
    section = {"config_file": str(config_file)}
    before = model(section)
    config_file.write_text(json.dumps({"model_type": "bert", **SIZES, "num_hidden_layers": 4}))
    assert model(section) != before


def test_a_null_field_is_left_to_the_family():
    assert "hidden_size" not in model({"config": {"hidden_size": None}})["config"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not readable as JSON"),
        ("[]", "names no model_type"),
        ('{"model_type": "gpt2"}', "'gpt2' is no masked language model"),
        ('{"model_type": "bert", "hidden_size": 5, "num_attention_heads": 2}', "do not divide"),
    ],
)
def test_an_unfit_config_file_is_named_before_the_first_job(tmp_path, content, problem):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        model({"config_file": str(path)})


def test_a_hub_id_must_be_pinned_and_is_the_only_source(config_file):
    with pytest.raises(ConfigError, match=r"hub\.revision: missing"):
        model({"hub": {"id": "org/model"}})
    with pytest.raises(ConfigError, match="both set"):
        model({"hub": {"id": "org/model", "revision": "a" * 40}, "config_file": str(config_file)})


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"hidden_size": -8}, "hidden_size: found -8, expected a whole number from 1 on"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers: found 2.5, expected a whole number"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob: found 1.5, expected a number from 0"),
        ({"pad_token_id": 7}, "pad_token_id: the workflow sets it itself"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: the workflow sets it itself"),
    ],
)
def test_fields_that_no_model_can_have_are_named(config, problem):
    with pytest.raises(ConfigError, match=problem):
        model({"config": config})


@pytest.mark.parametrize("family", sorted(REFUSED_FAMILIES))
def test_a_family_that_would_not_export_is_refused_with_the_reason(family):
    with pytest.raises(ConfigError, match=f"'{family}' is not supported: "):
        model({"family": family, "initialisation": "standard"})

"""The section `model`: families, config files, and what of the defaults applies to them."""

import json
import os

import pytest

from mlm.config import configuration
from mlm.config.families import REFUSED_FAMILIES, TENSORFLOW_FAMILIES, engine_for
from mlm.config.resolution import model_of_run, resolve
from mlm.foundations.errors import ConfigError

SIZES = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}


def model(section: dict, run: str = "base", **runs) -> dict:
    config = resolve({"model": section, "runs": {"base": {}} | runs})
    return model_of_run(config, run)


@pytest.fixture()
def config_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", **SIZES}))
    return path


def test_the_families_are_those_of_the_pinned_transformers():
    from transformers.models.auto.modeling_tf_auto import TF_MODEL_FOR_MASKED_LM_MAPPING_NAMES

    assert {*TENSORFLOW_FAMILIES, *REFUSED_FAMILIES} == set(TF_MODEL_FOR_MASKED_LM_MAPPING_NAMES)


def test_a_config_file_is_not_overridden_by_defaults(config_file):
    found = model({"config_file": str(config_file), "config": {"intermediate_size": 200}})
    assert found["config_file"] == {"model_type": "bert", **SIZES}
    assert found["config"] == {"intermediate_size": 200}


def test_a_run_with_a_config_file_leaves_the_other_runs_their_sizes(config_file):
    """What is set beside the file is honoured though it equals the default."""
    file, size = {"config_file": str(config_file)}, {"config": {"hidden_size": 128}}
    for own, of_all, expected in (
        (file, {}, {}),
        (file | size, {}, {"hidden_size": 128}),
        (file, size, {"hidden_size": 128}),
    ):
        assert model(of_all, "other", other={"model": own})["config"] == expected
        assert model(of_all, "base", other={"model": own})["config"]["hidden_size"] == 128


def test_an_edited_config_file_is_another_model(config_file):
    section = {"config_file": str(config_file)}
    before = model(section)
    config_file.write_text(json.dumps({"model_type": "bert", **SIZES, "num_hidden_layers": 4}))
    assert model(section) != before


def test_a_null_field_is_left_to_the_family_and_deberta_may_have_no_token_types():
    assert "hidden_size" not in model({"config": {"hidden_size": None}})["config"]
    deberta = {"family": "deberta", "initialisation": {"attention": "standard"}}
    found = model(deberta | {"config": {"type_vocab_size": 0}})
    assert found["config"]["type_vocab_size"] == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not readable as JSON"),
        ("[]", "names no model_type"),
        ('{"model_type": "gpt2"}', "'gpt2' is not a masked language model"),
        ('{"model_type": "bert", "is_decoder": true}', "is_decoder: True makes another kind of"),
        ('{"model_type": "bert", "x": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
        ('{"model_type": "bert", "hidden_size": 5, "num_attention_heads": 2}', "do not divide"),
    ],
)
def test_an_unfit_config_file_is_named_before_the_first_job(tmp_path, content, problem):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        model({"config_file": str(path)})


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"hidden_size": -8}, "hidden_size: found -8, expected integer from 1 to 1000000000"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers: found 2.5, expected integer"),
        (
            {"hidden_dropout_prob": 1.5},
            "hidden_dropout_prob: found 1.5, expected number from 0 to less",
        ),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps: nan is not a finite number"),
        ({"type_vocab_size": 0}, "type_vocab_size: found 0, expected integer from 1 to"),
        ({"layer_norm_eps": -1}, "layer_norm_eps: found -1.0, expected number above 0 and below 1"),
        ({"layer_norm_eps": 1e300}, "layer_norm_eps: found 1e[+]300, expected number above 0"),
        ({"id2label": {"0": [float("inf")]}}, "id2label: found .*, expected finite numbers"),
        ({"norm_eps": 0}, "norm_eps: found 0.0, expected number above 0 and below 1"),
        ({"initializer_range": 1e30}, "initializer_range: found 1e[+]30, expected number from 0"),
        ({"is_decoder": True}, "is_decoder: True makes another kind of model"),
        ({"pad_token_id": 7}, "pad_token_id: the workflow sets it itself"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: the workflow sets it itself"),
    ],
)
def test_fields_that_no_model_can_have_are_named(config, problem):
    with pytest.raises(ConfigError, match=problem):
        model({"config": config})


def test_a_config_file_that_is_no_regular_file_is_refused_unread(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigError, match=r"is not a regular file; a config\.json of"):
            model({"config_file": str(path)})


def test_a_family_that_contradicts_the_config_file_is_refused(config_file):
    with pytest.raises(ConfigError, match=r"model\.family: roberta is set, but the model_type of"):
        model({"config_file": str(config_file), "family": "roberta"})
    assert model({"config_file": str(config_file), "family": "bert"})


@pytest.mark.parametrize("family", sorted(REFUSED_FAMILIES))
def test_a_family_that_would_not_export_is_refused_with_the_reason(family):
    with pytest.raises(ConfigError, match=f"'{family}' is not supported: "):
        model({"family": family, "initialisation": {"attention": "standard"}})


@pytest.mark.parametrize(
    ("section", "pretraining", "said"),
    [
        (
            {"family": "modernbert"},
            {"engine": "tensorflow"},
            "model.family: 'modernbert' is not trained by pretraining.engine: tensorflow; set it "
            "to jax, or choose one of albert",
        ),
        (
            {"family": "albert", "initialisation": {"attention": "standard"}},
            {"engine": "jax"},
            "model.family: 'albert' is not trained by pretraining.engine: jax; set it to "
            "tensorflow, or choose one of bert, modernbert",
        ),
        (
            {},
            {"attend": "document"},
            "pretraining.attend: document, which pretraining.engine: tensorflow does not have",
        ),
        ({}, {"engine": "torch"}, "pretraining.engine: found 'torch', expected"),
    ],
)
def test_what_an_engine_does_not_have_is_refused(section, pretraining, said):
    with pytest.raises(ConfigError) as caught:
        resolve({"model": section, "pretraining": pretraining})
    assert any(said in problem for problem in caught.value.problems)


def test_a_missing_jax_is_told_with_all_other_problems(monkeypatch):
    wrong = {"seed": -1, "pretraining": {"engine": "jax"}}
    monkeypatch.setattr(configuration, "installed_version", lambda package: None)
    with pytest.raises(ConfigError) as caught:
        resolve(wrong)
    seed, missing = caught.value.problems
    assert seed.startswith("seed: found -1")
    assert missing.startswith("JAX is not installed here, which pretraining.engine: jax")


def test_virtual_replicas_are_no_gpus():
    with pytest.raises(ConfigError, match="virtual_replicas are logical CPU devices"):
        resolve({"accelerator": {"kind": "gpu", "virtual_replicas": 2}})


def test_a_family_takes_the_engine_that_has_it():
    resolve({"model": {"family": "modernbert"}, "pretraining": {"attend": "document"}})
    assert engine_for("auto", "modernbert") == "jax"
    assert engine_for("auto", "roberta") == "tensorflow"
    assert engine_for("jax", "roberta") == "jax"

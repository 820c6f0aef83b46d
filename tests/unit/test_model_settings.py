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


def test_jobs_get_the_content_of_a_config_file_and_what_the_user_sets_beside_it(config_file):
    file, size = {"config_file": str(config_file)}, {"config": {"hidden_size": 128}}
    assert model(file)["config_file"] == {"model_type": "bert", **SIZES}
    for own, of_all, expected in (
        (file, {}, {}),
        (file | size, {}, {"hidden_size": 128}),
        (file, size, {"hidden_size": 128}),
    ):
        assert model(own | of_all)["config"] == expected
        assert model(of_all, "other", other={"model": own})["config"] == expected
        assert model(of_all, "base", other={"model": own})["config"]["hidden_size"] == 128


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
        ('{"model_type": "bert", "is_decoder": true}', "is_decoder: True makes a decoder of it"),
        ('{"model_type": "bert", "hidden_size": 5, "num_attention_heads": 2}', "do not divide"),
    ],
)
def test_an_unfit_config_file_is_named_before_the_first_job(config_file, content, problem):
    config_file.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        model({"config_file": str(config_file)})


def test_a_config_file_that_is_no_regular_file_is_refused_unread(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigError, match=r"is not a regular file; a config\.json of"):
            model({"config_file": str(path)})


def test_a_family_that_contradicts_the_config_file_is_refused(config_file):
    with pytest.raises(ConfigError, match=r"model\.family: roberta is set, but the model_type of"):
        model({"config_file": str(config_file), "family": "roberta"})
    assert model({"config_file": str(config_file), "family": "bert"})


def test_a_family_takes_the_engine_that_has_it_and_no_other():
    resolve({"model": {"family": "modernbert"}, "pretraining": {"attend": "document"}})
    words = "'albert' is not trained by pretraining.engine: jax; set it to tensorflow, or choose"
    with pytest.raises(ConfigError, match=words):
        resolve({"model": {"family": "albert"}, "pretraining": {"engine": "jax"}})
    assert engine_for("auto", "modernbert") == engine_for("jax", "roberta") == "jax"
    assert engine_for("auto", "roberta") == "tensorflow"


def test_fine_tuning_of_a_family_without_an_encoder_in_jax_is_told_before_the_first_job():
    runs = {"base": {}, "other": {"model": {"family": "electra"}}}
    with pytest.raises(ConfigError) as caught:
        resolve({"finetune": {"enabled": True}, "runs": runs})
    assert caught.value.problems == [
        "runs.other: finetune.enabled: 'electra' is not fine-tuned here; choose one of bert, "
        "modernbert, roberta, roberta-prelayernorm, xlm-roberta, or set it to false"
    ]
    resolve({"runs": runs})


def test_a_missing_jax_is_told_with_all_other_problems(monkeypatch):
    wrong = {"seed": -1, "pretraining": {"engine": "jax"}}
    monkeypatch.setattr(configuration, "installed_version", lambda package: None)
    with pytest.raises(ConfigError) as caught:
        resolve(wrong)
    seed, missing = caught.value.problems
    assert seed.startswith("seed: found -1")
    assert missing.startswith("JAX is not installed here, which pretraining.engine: jax")


def test_a_checkpoint_has_its_own_architecture_and_what_is_set_beside_it_is_told_by_name(
    config_file, tmp_path
):
    for file in ("tokenizer.json", "model.safetensors"):
        (tmp_path / file).touch()
    start = {"start_from": str(tmp_path)}
    found = model(start | {"config": {"hidden_dropout_prob": 0.2}})
    assert found["config_file"] == {"model_type": "bert", **SIZES}
    assert found["config"] == {"hidden_dropout_prob": 0.2}
    assert found["initialisation"]["attention"] == "standard"
    beside = {"family": "roberta", "config": {"hidden_size": 8}, "config_file": str(config_file)}
    with pytest.raises(ConfigError) as error:
        model(start | beside)
    for name in ("family", "config_file", "config.hidden_size"):
        assert f"model.{name}: model.start_from has an architecture of its own" in str(error.value)


def test_a_directory_without_a_fitting_encoder_is_refused_before_the_first_job(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "results/{run}"
    place.mkdir(parents=True)
    fields = {"model_type": "bert", **SIZES, "hidden_size": "32", "auto_map": {"AutoModel": "x.X"}}
    (place / "config.json").write_text(json.dumps(fields | {"tie_word_embeddings": False}))
    (place / "pytorch_model.bin").touch()
    with pytest.raises(ConfigError) as error:
        model({"start_from": "results/{run}"})
    for words in (
        "Snakemake reads braces",
        "is a result of this directory",
        "has no tokenizer.json",
        "has no model.safetensors",
        "brings its own code",
        "tie_word_embeddings is false",
        "hidden_size: found '32', expected an integer",
    ):
        assert words in str(error.value)
    with pytest.raises(ConfigError, match="is a file; name its directory"):
        model({"start_from": "results/{run}/config.json"})


HUB = "some/encoder@" + "0" * 40


@pytest.mark.parametrize(
    ("start", "engine", "problem"),
    [
        ("no-such-directory", "jax", "is no directory here, nor owner/name@COMMIT"),
        ("some/encoder@main", "jax", "is no directory here, nor owner/name@COMMIT"),
        (HUB, "auto", "Set pretraining.engine: jax"),
        (HUB, "jax", None),
    ],
)
def test_a_checkpoint_on_the_hub_needs_a_commit_and_an_engine(start, engine, problem):
    given = {"model": {"start_from": start}, "pretraining": {"engine": engine}}
    if problem is None:
        # Whether it is here already makes no other job of it.
        assert model_of_run(resolve(given), "base")["config_file"] is None
        return
    with pytest.raises(ConfigError, match=problem):
        resolve(given)

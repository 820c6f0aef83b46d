import json

import pytest

from mlm.config import configuration, pretraining
from mlm.config.configuration import trainings
from mlm.config.model import Model
from mlm.config.overlays import resolve
from mlm.config.pretraining import engine_for
from mlm.foundations.errors import ConfigError

SIZES = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}


def model(section: dict, run: str = "base", **runs) -> Model:
    return trainings(resolve({"model": section, "runs": {"base": {}} | runs}))[run].model


def problems(**sections) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        resolve(sections)
    return refusal.value.problems


@pytest.mark.parametrize(
    ("engine", "installed", "told"),
    [
        ("tensorflow", {"jax": "0"}, True),
        ("auto", {"jax": "0"}, False),
        # An environment for plans.
        ("tensorflow", {}, False),
    ],
)
def test_a_missing_tensorflow_is_told_with_all_other_problems(monkeypatch, engine, installed, told):
    for module in (configuration, pretraining):
        monkeypatch.setattr(module, "installed_version", installed.get)
    source, *missing = problems(corpus={"source": "files"}, pretraining={"engine": engine})
    assert source.startswith("corpus.files.train: ")
    assert [line.startswith("TensorFlow is not installed here") for line in missing] == [
        True
    ] * told


@pytest.mark.parametrize(
    ("installed", "engine"),
    [({"jax": "0"}, "jax"), ({}, "tensorflow"), ({"jax": "0", "tensorflow": "2"}, "tensorflow")],
)
def test_jax_trains_by_itself_where_tensorflow_is_not_installed(monkeypatch, installed, engine):
    monkeypatch.setattr(pretraining, "installed_version", installed.get)
    assert (engine_for("auto"), engine_for("tensorflow")) == (engine, "tensorflow")


def test_a_checkpoint_has_its_own_architecture_and_what_is_set_beside_it_is_told_by_name(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SIZES}))
    for file in ("tokenizer.json", "model.safetensors"):
        (tmp_path / file).touch()
    start = {"start_from": str(tmp_path)}
    section = model(start | {"config": {"hidden_dropout_prob": 0.2}})
    assert section.fields() == {"model_type": "bert", **SIZES, "hidden_dropout_prob": 0.2}
    assert section.initialisation.attention == "standard"
    # A job makes the same of its param.
    assert Model.model_validate(section.as_param()) == section
    told = problems(model=start | {"family": "roberta", "config": {"hidden_size": 8}})
    for name in ("family", "config.hidden_size"):
        assert any(f"model.{name}: " in problem for problem in told)


def test_a_directory_without_a_fitting_encoder_is_refused_before_the_first_job(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "results/encoder"
    place.mkdir(parents=True)
    fields = {"model_type": "bert", **SIZES, "hidden_size": "32", "auto_map": {"AutoModel": "x.X"}}
    (place / "config.json").write_text(json.dumps(fields))
    (place / "pytorch_model.bin").touch()
    told = "\n".join(problems(model={"start_from": "results/encoder"}))
    for words in (
        *("result of this directory", "tokenizer.json", "model.safetensors"),
        *("auto_map", "hidden_size: found '32'"),
    ):
        assert words in told


HUB = "some/encoder@" + "0" * 40


def test_a_checkpoint_on_the_hub_needs_a_commit():
    assert "owner/name@COMMIT" in problems(model={"start_from": "some/encoder@main"})[0]
    # Whether it is here already makes no other job of it.
    assert model({"start_from": HUB}).set_fields == {}

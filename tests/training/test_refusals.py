"""What does not fit is said before the first step, and no state is lost by it."""

import dataclasses

import pytest
from small_run import LENGTH, run_child, small_run, told, write_inputs, write_split, write_tokenizer
from tests.conftest import refusal

from mlm.accelerators.artefacts import PreflightVerdict, Step
from mlm.accelerators.required_preflight import require_passed
from mlm.config.model import ModelOfRun
from mlm.config.pretraining import Pretraining
from mlm.foundations.artefacts import record_job, write_artefact
from mlm.foundations.errors import ConfigError, MlmError
from mlm.model.model_configuration import model_configuration
from mlm.samples.manifests import Manifest
from mlm.tokenizer.encoding import Encoder, SpecialIds
from mlm.training.in_tensorflow.model import build_model


def model_of(family: str, config: dict, architecture: dict | None = None) -> ModelOfRun:
    given = {"family": family, "config": config, "config_file": architecture, "start_from": None}
    return ModelOfRun.of_param(given)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder.load(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture
def root(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.mark.parametrize(
    "family, config, problem",
    [
        ("bert", {"vocab_size": 400}, "vocab_size: 400, but the tokenizer has 500 ids"),
        ("bert", {"num_attention_heads": 3}, "3 attention heads do not divide width 32"),
        ("distilbert", {"num_attention_heads": 3}, "3 attention heads do not divide width 32"),
        ("deberta-v2", {}, "draws from a generator that no saved state holds"),
    ],
)
def test_a_model_that_does_not_fit_its_data_is_named(encoder, family, config, problem):
    with pytest.raises(ConfigError, match=problem):
        model_configuration(model_of(family, SMALL | config), encoder, LENGTH)


@pytest.mark.parametrize("family", ["roberta", "roberta-prelayernorm", "xlm-roberta"])
def test_the_roberta_family_needs_padding_at_one(encoder, family):
    class Swapped:
        vocabulary_size = encoder.vocabulary_size
        special_ids = SpecialIds(cls=0, pad=2, sep=1, unk=3, mask=4)

    with pytest.raises(ConfigError, match=r"pad token has id 2.*Give <pad> id 1"):
        model_configuration(model_of(family, SMALL), Swapped(), LENGTH)
    assert model_configuration(model_of("bert", SMALL), Swapped(), LENGTH).pad_token_id == 2


def test_every_problem_is_named_at_once(encoder):
    wrong = {"vocab_size": 400, "num_attention_heads": 3}
    with pytest.raises(ConfigError) as raised:
        model_configuration(model_of("bert", SMALL | wrong), encoder, LENGTH)
    assert len(raised.value.problems) == 2
    with pytest.raises(ConfigError) as raised:
        wrong = {"hiden_size": 64, "num_layer": 3}
        model_configuration(model_of("bert", SMALL | wrong), encoder, LENGTH)
    first, second = raised.value.problems
    assert first.startswith("model.config.hiden_size: bert has no such field")
    assert "did you mean 'hidden_size'" in first
    assert second.startswith("model.config.num_layer: bert has no such field")


def test_distilbert_takes_the_names_of_the_other_families(encoder):
    sizes = SMALL | {"intermediate_size": 48}
    fields = sizes | {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.4}
    config = model_configuration(model_of("distilbert", fields), encoder, LENGTH)
    assert (config.hidden_dim, config.dropout, config.attention_dropout) == (48, 0.3, 0.4)
    own = model_of("distilbert", SMALL | {"n_heads": 4})
    assert model_configuration(own, encoder, LENGTH).n_heads == 4


def test_the_content_of_a_config_file_is_the_architecture(encoder):
    stored = {"model_type": "bert", "architectures": ["X"], "auto_map": {"AutoModel": "code.py"}}
    request = model_of("roberta", {"num_hidden_layers": 3}, stored | SMALL)
    config = model_configuration(request, encoder, LENGTH)
    assert (config.model_type, config.num_hidden_layers) == ("bert", 3)
    assert config.hidden_size == SMALL["hidden_size"]
    assert not hasattr(config, "auto_map")
    wrong = model_of("roberta", {}, stored | SMALL | {"vocab_size": 50265})
    with pytest.raises(ConfigError, match="vocab_size: 50265, but the tokenizer has 500 ids"):
        model_configuration(wrong, encoder, LENGTH)


def test_fields_that_the_library_refuses_are_told_in_words(encoder):
    config = model_configuration(model_of("bert", SMALL), encoder, LENGTH)
    config.hidden_act = "nonsense"
    with pytest.raises(MlmError, match=r"transformers cannot build a bert from these fields"):
        build_model(config, "standard", 0)


def refused(root, overrides, message, **fault):
    """The run ends with an MlmError that says `message`, and leaves no result."""
    assert run_child(root, "refused", overrides, fault) == 3
    assert message in told(root, "refused"), told(root, "refused")
    assert not (root / "runs").exists()


def test_an_empty_validation_split_is_refused(root):
    tokenizer = Manifest.read(root / "validation.json").tokenizer_sha256
    empty = write_split(root / "shards", "validation", (0,), tokenizer_sha256=tokenizer)
    empty.write(root / "validation.json")
    assert "the validation split has no samples" in refusal(small_run, root)


def test_a_batch_larger_than_the_split_is_refused(root):
    larger = {"pretraining": {"per_replica_batch_size": 201}}
    assert "one step takes 201 samples" in refusal(small_run, root, larger)


@pytest.mark.parametrize(
    "length, steps", [({"steps": 7}, 7), ({"epochs": 1.5}, 38), ({"tokens": 1000}, 8)]
)
def test_steps_epochs_and_tokens_come_to_steps(length, steps):
    assert Pretraining(**length).updates(200, LENGTH, 8) == steps


def test_shards_of_another_tokenizer_or_length_are_refused(root):
    longer = {"shards": {"sequence_length": 32}}
    assert "samples of 16 tokens; 32 are expected" in refusal(small_run, root, longer)
    manifest = Manifest.read(root / "train.json")
    dataclasses.replace(manifest, tokenizer_sha256="f" * 64).write(root / "train.json")
    assert "its shards were made with another tokenizer" in refusal(small_run, root)


def test_a_damaged_tokenizer_is_named_and_not_the_shards(root):
    place = root / "tokenizer"
    record, tokenizer = place / "tokenizer_stats.json", place / "tokenizer.json"
    write_artefact(record, {})
    record_job("tokenizer", {}, {}, map(str, [record, tokenizer]))
    tokenizer.write_bytes(tokenizer.read_bytes().replace(b"1", b"2", 1))
    assert f"To have it made again: rm {tokenizer}, then the same" in refusal(small_run, root)


def test_a_tpu_that_tensorflow_cannot_use_is_refused_also_where_auto_finds_it(root):
    said = "No TPU can be used. Tried a TPU of this machine (kind: tpu). TensorFlow"
    refused(root, {"accelerator": {"kind": "tpu"}}, said)
    # The CPU of a TPU rented by the minute is not what was meant.
    tpu_vm = {"TPU_WORKER_ID": "0", "TPU_SKIP_MDS_QUERY": "1"}
    found = "a TPU of this machine (found: the environment has TPU_WORKER_ID"
    refused(root, {"accelerator": {"kind": "auto"}}, found, environment=tpu_vm)
    said = told(root, "refused")
    assert "envs/requirements-tpu.txt" in said and "accelerator.kind: cpu" in said


def require(root, passed: bool | None, **changes) -> None:
    """Ask for a preflight of the small run that passed; of one whose step has `changes`, if any."""
    run, _ = small_run(root)
    step = {"engine": "tensorflow", "precision": "bfloat16"} | run.step_sizes()
    if passed is not None:
        empty = {key: [] for key in ("unseen", "findings", "targets", "notes")}
        told = {"run": "small", "label": "", "effort": "full", "packages": {}} | empty
        verdict = PreflightVerdict(passed=passed, step=Step(**step | changes), **told)
        verdict.write(root / "preflight.json")
    require_passed(str(root / "preflight.json"), "small", step)


@pytest.mark.parametrize(
    "passed, changes, fault",
    [
        (None, {}, "does not exist"),
        (False, {}, "says that it failed"),
        (True, {"slots": 4}, "made for slots 4, .* has 5"),
        (True, {"engine": "jax"}, "made for engine jax, .* has tensorflow"),
        (True, {"rematerialise": True}, "made for rematerialise True, .* has False"),
    ],
)
def test_auto_that_finds_a_tpu_waits_for_a_passed_preflight_too(root, passed, changes, fault):
    with pytest.raises(MlmError, match=fault) as error:
        require(root, passed, **changes)
    assert "snakemake --cores 2 results/runs/small/preflight/passed.txt" in str(error.value)
    require(root, True)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_state(root):
    optimizer = {"learning_rate": 1e9, "weight_decay": 1e9, "max_grad_norm": None}
    wild = {"optimizer": optimizer | {"warmup_ratio": 0.0}}
    short = {"checkpoint": {"every": 1}}
    refused(root, {"pretraining": wild | short}, "not finite at step")
    assert "Try a lower pretraining.optimizer.learning_rate" in told(root, "refused")

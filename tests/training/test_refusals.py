"""What does not fit is said before the first step, and no state is lost by it."""

import dataclasses

import pytest
from small_run import LENGTH, run_child, small_run, told, write_inputs, write_split, write_tokenizer
from tests.conftest import refusal

from mlm.config.model import Model
from mlm.config.pretraining import Pretraining
from mlm.config.special_tokens import SpecialIds
from mlm.foundations.errors import ConfigError
from mlm.model.architecture import model_configuration
from mlm.samples.manifests import Manifest
from mlm.tokenizer.encoding import Encoder
from mlm.training.length_and_phases import updates_of


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder.load(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture
def root(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def problems(encoder, family: str, config: dict) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        model_configuration(Model(family=family, config=config), encoder, LENGTH)
    return raised.value.problems


@pytest.mark.parametrize(
    "family, config, named",
    [
        ("bert", {"vocab_size": 400}, ["vocab_size"]),
        ("bert", {"hiden_size": 64, "num_layer": 3}, ["'hidden_size'", "num_layer"]),
    ],
)
def test_every_field_that_does_not_fit_is_named(encoder, family, config, named):
    found = problems(encoder, family, SMALL | config)
    assert len(found) == len(named)
    assert all(any(name in problem for problem in found) for name in named), found


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_the_roberta_family_needs_padding_at_one(encoder, family):
    class Swapped:
        vocabulary_size = encoder.vocabulary_size
        special_ids = SpecialIds(cls=0, pad=2, sep=1, unk=3, mask=4)

    assert "<pad>" in problems(Swapped(), family, SMALL)[0]
    assert (
        model_configuration(Model(family="bert", config=SMALL), Swapped(), LENGTH).pad_token_id == 2
    )


def test_distilbert_takes_the_names_of_the_other_families(encoder):
    sizes = SMALL | {"intermediate_size": 48}
    fields = sizes | {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.4}
    config = model_configuration(Model(family="distilbert", config=fields), encoder, LENGTH)
    assert (config.hidden_dim, config.dropout, config.attention_dropout) == (48, 0.3, 0.4)


def refused(root, overrides, message, **fault):
    """The run ends with an MlmError that says `message`, and leaves no result."""
    assert run_child(root, "refused", overrides, fault) == 3
    assert message in told(root, "refused"), told(root, "refused")
    assert not (root / "runs").exists()


def test_data_that_do_not_fit_the_run_are_refused(root):
    assert "201" in refusal(small_run, root, {"pretraining": {"per_replica_batch_size": 201}})
    assert "32" in refusal(small_run, root, {"shards": {"sequence_length": 32}})
    manifest = Manifest.read(root / "validation.json")
    tokenizer = manifest.tokenizer_sha256
    dataclasses.replace(manifest, tokenizer_sha256="f" * 64).write(root / "validation.json")
    assert "another tokenizer" in refusal(small_run, root)
    empty = write_split(root / "shards", "validation", (0,), tokenizer_sha256=tokenizer)
    empty.write(root / "validation.json")
    assert "validation split has no samples" in refusal(small_run, root)


@pytest.mark.parametrize(
    "length, steps", [({"steps": 7}, 7), ({"epochs": 1.5}, 38), ({"tokens": 1000}, 8)]
)
def test_steps_epochs_and_tokens_come_to_steps(length, steps):
    assert updates_of(Pretraining(**length), 200, LENGTH, 8) == steps
    phases = [{"share": share} for share in (0.7, 0.2, 0.1)]
    assert updates_of(Pretraining(**length, phases=phases), 200, LENGTH, 8) == steps


@pytest.mark.slow
def test_a_tpu_that_tensorflow_cannot_use_is_refused_also_where_auto_finds_it(root):
    refused(root, {"accelerator": {"kind": "tpu"}}, "kind: tpu")
    # The CPU of a TPU rented by the minute is not what was meant.
    tpu_vm = {"TPU_WORKER_ID": "0", "TPU_SKIP_MDS_QUERY": "1"}
    refused(root, {"accelerator": {"kind": "auto"}}, "TPU_WORKER_ID", environment=tpu_vm)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_state(root):
    optimizer = {"learning_rate": 1e9, "weight_decay": 1e9, "max_grad_norm": None}
    wild = {"optimizer": optimizer | {"warmup_steps": 0}}
    short = {"checkpoint": {"every": 1}}
    refused(root, {"pretraining": wild | short}, "pretraining.optimizer.learning_rate")

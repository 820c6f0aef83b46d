import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from in_pytorch import run_in
from safetensors.numpy import load_file
from test_network import families
from tiny_encoder import MASK, tiny_batch, tiny_config
from tiny_task import write_model

from mlm.config.families import FAMILIES
from mlm.finetuning.sequence_model import sequence_model
from mlm.foundations.errors import MlmError
from mlm.model.model_files import Checkpoint

KINDS = ("weight", "bias")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    write_model(place, seed=7)
    return place


def of(directory):
    fields = Checkpoint.read(str(directory)).fields
    return sequence_model(fields, (), 0.0, place=str(directory))


def loaded(directory):
    return of(directory).parameters(0, Checkpoint.read(str(directory)))


def test_all_weights_but_the_heads_come_from_the_file(directory):
    stored, found = load_file(directory / "model.safetensors"), loaded(directory)
    head = {f"classifier.{part}.{kind}" for part in ("dense", "out_proj") for kind in KINDS}
    assert {name for name in found if name.startswith("classifier.")} == head
    assert found.keys() - head == {name for name in stored if name.startswith("roberta.")}
    assert all(np.array_equal(stored[name], found[name]) for name in found.keys() - head)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hidden_act": "swish"}, "config.json: hidden_act: found 'swish'"),
        ({"model_type": "bert"}, r"bert\.embeddings\.LayerNorm\.bias: found nothing, expected"),
    ],
)
def test_another_architecture_is_refused(directory, tmp_path, change, message):
    place = Path(shutil.copytree(directory, tmp_path / "copy"))
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(MlmError, match=message):
        loaded(place)


def test_positions_bound_the_length(directory):
    model = of(directory)
    assert model.length(128) == 16
    assert model.length(12) == 12
    assert sequence_model(tiny_config("modernbert"), (), 0.0).length(128) == 128


@families
def test_one_dropout_holds_throughout(family):
    model = sequence_model(tiny_config(family), "abc", 0.25)
    rates = [name for name in FAMILIES[family].fields if name.endswith("dropout")]
    assert [getattr(model.network.architecture, name) for name in rates] == [0.25] * len(rates)
    of_head = FAMILIES[family].sequence_head.dropout
    assert len(rates) > 1 and (of_head is None or model.fields[of_head] == 0.25)


def grown(family, of_tokens=False, **changes):
    """A model, and weights so large that logits differ."""
    model = sequence_model(tiny_config(family, **changes), "abc", 0.0, of_tokens=of_tokens)
    random = np.random.default_rng(0)
    parameters = {
        name: np.asarray(value) + random.normal(0, 0.1, value.shape).astype(np.float32)
        for name, value in model.parameters(0).items()
    }
    return model, parameters


@pytest.mark.slow
def test_logits_equal_pytorchs(tmp_path):
    """Of every family and both kinds of heads, and nothing of what is written is left over or
    missing there."""
    ids, mask = tiny_batch()
    ids[0, 5] = MASK
    np.savez(tmp_path / "inputs.npz", input_ids=ids, attention_mask=mask)
    heads = {"texts": False, "tokens": True}
    models = {f"{f}_{name}": grown(f, of) for f in FAMILIES for name, of in heads.items()}
    models["esm_2"] = grown("esm", token_dropout=True)
    for name, (model, parameters) in models.items():
        model.write(tmp_path / name, parameters)
    run_in("pytorch", "logits.py", "pytorch", tmp_path)
    for name, (model, parameters) in models.items():
        logits = np.asarray(model.logits(parameters, ids, mask))
        expected = np.load(tmp_path / name / "pytorch.npy")
        assert logits.shape == expected.shape
        # Nobody reads what is at padding.
        seen = mask.astype(bool) if "tokens" in name else slice(None)
        np.testing.assert_allclose(logits[seen], expected[seen], atol=1e-5, err_msg=name)

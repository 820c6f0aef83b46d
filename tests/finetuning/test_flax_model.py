"""A pretrained checkpoint in Flax: every weight arrives, or the reason is said."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import load_file, save_file
from tests.conftest import users_environment
from tiny_task import write_model

from mlm.finetuning.flax_model import (
    longest_sequence,
    pretrained_model,
    pytorch_name,
    pytorch_value,
    random_model,
    sequence_configuration,
    write_flax_model,
)
from mlm.foundations.errors import MlmError


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    write_model(place, seed=7)
    return place


def changed(directory, place, change):
    """A copy of the model whose stored weights went through `change`."""
    for file in directory.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    weights = change(load_file(place / "model.safetensors"))
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    return place


def loaded(directory):
    return pretrained_model(directory, sequence_configuration(directory, 1, 0.0), 0, np.float32)


def test_all_weights_but_the_heads_come_from_the_file(directory):
    stored = load_file(directory / "model.safetensors")
    found = flatten_dict(loaded(directory).params)
    taken = {pytorch_name(p) for p in found if p[0] != "classifier"}
    assert taken == {name for name in stored if name.startswith("roberta.")}
    for path, value in found.items():
        if path[0] != "classifier":
            assert np.array_equal(stored[pytorch_name(path)], pytorch_value(path, value))


def test_random_weights_are_others_and_a_function_of_the_seed(directory):
    config = sequence_configuration(directory, 1, 0.0)
    one, same, other = (
        flatten_dict(random_model(config, seed, np.float32).params) for seed in (0, 0, 1)
    )
    words = next(path for path in one if "word_embeddings" in path)
    assert all(np.array_equal(one[path], same[path]) for path in one)
    assert not np.array_equal(one[words], other[words])
    assert not np.array_equal(one[words], flatten_dict(loaded(directory).params)[words])


def test_a_weight_that_is_missing_is_named(directory, tmp_path):
    lost = "roberta.encoder.layer.0.output.dense.weight"
    place = changed(directory, tmp_path, lambda w: {k: v for k, v in w.items() if k != lost})
    with pytest.raises(MlmError, match=lost):
        loaded(place)


def test_a_file_in_tensorflows_layout_is_refused(directory, tmp_path):
    def renamed(weights):
        return {"tf/" + k.replace(".", "/"): v for k, v in weights.items()}

    with pytest.raises(MlmError, match="in another layout than PyTorch's"):
        loaded(changed(directory, tmp_path, renamed))


def test_another_architecture_is_refused(directory, tmp_path):
    place = changed(directory, tmp_path, dict)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"model_type": "electra"}))
    with pytest.raises(MlmError, match="another architecture"):
        loaded(place)
    (place / "config.json").write_text(json.dumps(config | {"model_type": "mpnet"}))
    with pytest.raises(MlmError, match="no Flax sequence model of the family 'mpnet'"):
        sequence_configuration(place, 1, 0.0)


def test_positions_bound_the_length(directory):
    assert longest_sequence(sequence_configuration(directory, 1, 0.0)) == 16


def test_one_dropout_holds_throughout(directory):
    config = sequence_configuration(directory, 3, 0.25)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.25
    assert config.num_labels == 3


TENSORFLOW = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from mlm.foundations.framework import tf
from transformers import TFRobertaForSequenceClassification

model = TFRobertaForSequenceClassification.from_pretrained(sys.argv[2], local_files_only=True)
asked = np.load(sys.argv[2] + "/asked.npz")
np.save(sys.argv[2] + "/logits.npy", model(**{k: asked[k] for k in asked}).logits.numpy())
"""


@pytest.mark.slow
def test_logits_equal_tensorflows(directory, tmp_path):
    """The same checkpoint, head included, on padded and unpadded rows, in a process of its own:
    transformers finds TensorFlow when it is imported, or never."""
    model = loaded(directory)
    # Weights of a fresh model are so small that every passage has the same logit.
    grown = unflatten_dict(
        {
            path: value * (10 if path[-1] in ("kernel", "embedding") else 1)
            for path, value in flatten_dict(model.params).items()
        }
    )
    write_flax_model(tmp_path, grown, model.config)
    ids = np.random.default_rng(0).integers(5, 120, (8, 16))
    ids[:, 0] = 0
    mask = np.ones_like(ids)
    ids[4:, 9:], mask[4:, 9:] = 1, 0
    np.savez(tmp_path / "asked.npz", input_ids=ids, attention_mask=mask)
    scripts = str(Path(__file__).parents[2] / "scripts")
    subprocess.run(
        [sys.executable, "-c", TENSORFLOW, scripts, str(tmp_path)],
        check=True,
        env=users_environment(),
    )
    flax = np.asarray(model(ids, mask, params=grown).logits)
    assert np.abs(flax - np.load(tmp_path / "logits.npy")).max() < 1e-4
    assert np.ptp(flax) > 1e-2

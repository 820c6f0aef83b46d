"""One exported model, opened by TensorFlow, Flax and PyTorch, gives the same logits."""

import sys
from pathlib import Path

import numpy as np
import pytest
from small_run import LENGTH, VOCABULARY, small_samples, write_tokenizer

from mlm.config.model import ModelOfRun
from mlm.foundations.tensorflow_setup import tf
from mlm.model.export import ExportedModel
from mlm.model.model_configuration import model_configuration
from mlm.tokenizer.encoding import Encoder
from mlm.training.in_tensorflow.model import build_model, pytorch_weights
from mlm.training.in_tensorflow.prediction import masked_logits

sys.path.append(str(Path(__file__).parents[1] / "pytorch"))
from in_pytorch import run_in_pytorch

FAMILIES = ("roberta", "roberta-prelayernorm", "bert", "distilbert", "albert", "electra")
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A directory with inputs.npz; models are exported into it."""
    root = tmp_path_factory.mktemp("export")
    ids = small_samples(3)
    mask = np.ones_like(ids)
    ids[1, 10:], mask[1, 10:] = 1, 0
    np.savez(root / "inputs.npz", input_ids=ids, attention_mask=mask)
    return root


@pytest.fixture(scope="module")
def models(root):
    """By family: a model whose every weight is random, exported below `root`."""
    encoder = Encoder.load(write_tokenizer(root / "tokenizer"))
    random, made = np.random.default_rng(0), {}
    for family in FAMILIES:
        sizes = SMALL | ({"embedding_size": 16} if family in ("albert", "electra") else {})
        given = {"family": family, "config": sizes, "config_file": None, "start_from": None}
        config = model_configuration(ModelOfRun.of_param(given), encoder, LENGTH)
        model = build_model(config, "standard", seed=0)
        # A bias of zero would agree wherever it ended up.
        for variable in model.weights:
            variable.assign_add(random.normal(0, 0.1, variable.shape).astype(np.float32))
        ExportedModel(pytorch_weights(model), config).write(str(root / family))
        made[family] = model
    return made


def inputs(root) -> dict:
    return dict(np.load(root / "inputs.npz"))


def logits(root, model) -> np.ndarray:
    tensors = {k: tf.constant(v, tf.int32) for k, v in inputs(root).items()}
    return model(tensors, training=False).logits.numpy()


def agree(one, other, mask):
    np.testing.assert_allclose(one[mask == 1], other[mask == 1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_tensorflow_opens_the_export(root, models, family):
    from transformers import TFAutoModelForMaskedLM

    opened, loading = TFAutoModelForMaskedLM.from_pretrained(
        root / family, output_loading_info=True
    )
    assert not loading["missing_keys"]
    agree(logits(root, opened), logits(root, models[family]), inputs(root)["attention_mask"])


# Flax computes ALBERT and ELECTRA otherwise than TensorFlow and PyTorch do.
@pytest.mark.parametrize("family", FAMILIES[:4])
def test_flax_opens_the_export(root, models, family):
    from transformers import FlaxAutoModelForMaskedLM

    opened = FlaxAutoModelForMaskedLM.from_pretrained(root / family)
    found = np.asarray(opened(**inputs(root)).logits)
    agree(found, logits(root, models[family]), inputs(root)["attention_mask"])


def test_pytorch_opens_the_exports(root, models):
    run_in_pytorch("logits.py", root)
    for family, model in models.items():
        found = np.load(root / family / "pytorch.npy")
        agree(found, logits(root, model), inputs(root)["attention_mask"])


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_at_masked_positions_are_those_of_the_whole_model(root, models, family):
    given = {k: tf.constant(v, tf.int32) for k, v in inputs(root).items()}
    positions = np.array([[1, 5, 7], [2, 3, 9], [14, 1, 1]])
    found = masked_logits(models[family], given | {"positions": tf.constant(positions)}, False)
    whole = logits(root, models[family])
    expected = np.take_along_axis(whole, positions[:, :, np.newaxis], axis=1)
    assert found.shape == (3, 3, VOCABULARY)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)

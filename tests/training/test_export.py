"""One exported model, opened by TensorFlow, Flax and PyTorch, gives the same logits."""

from functools import cache

import numpy as np
import pytest
from in_pytorch import run_in_pytorch
from small_run import LENGTH, VOCABULARY, small_samples, write_tokenizer

from mlm.config.model import ModelOfRun
from mlm.foundations.tensorflow_setup import tf
from mlm.model.export import ExportedModel
from mlm.model.model_configuration import model_configuration
from mlm.tokenizer.encoding import Encoder
from mlm.training.in_tensorflow.model import build_model, pytorch_weights
from mlm.training.in_tensorflow.prediction import masked_logits

FAMILIES = (
    *("roberta-prelayernorm", "roberta", "bert", "distilbert", "albert", "electra", "camembert"),
)
#: The default family always, and the others where there is time.
EACH = [FAMILIES[0], *(pytest.param(family, marks=pytest.mark.slow) for family in FAMILIES[1:])]
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
def model_of(root):
    """Gives the model of a family, whose every weight is random, exported below `root`."""
    encoder, random = Encoder.load(write_tokenizer(root / "tokenizer")), np.random.default_rng(0)

    @cache
    def made(family: str):
        sizes = SMALL | ({"embedding_size": 16} if family in ("albert", "electra") else {})
        section = ModelOfRun(family=family, config=sizes)
        config = model_configuration(section, encoder, LENGTH)
        model = build_model(config, "standard", seed=0)
        # A bias of zero would agree wherever it ended up.
        for variable in model.weights:
            variable.assign_add(random.normal(0, 0.1, variable.shape).astype(np.float32))
        ExportedModel(pytorch_weights(model), config).write(str(root / family))
        return model

    return made


def inputs(root) -> dict:
    return dict(np.load(root / "inputs.npz"))


def logits(root, model) -> np.ndarray:
    tensors = {k: tf.constant(v, tf.int32) for k, v in inputs(root).items()}
    return model(tensors, training=False).logits.numpy()


def agree(one, other, mask):
    np.testing.assert_allclose(one[mask == 1], other[mask == 1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", EACH)
def test_tensorflow_opens_the_export(root, model_of, family):
    from transformers import TFAutoModelForMaskedLM

    expected = logits(root, model_of(family))
    opened, loading = TFAutoModelForMaskedLM.from_pretrained(
        root / family, output_loading_info=True
    )
    assert not loading["missing_keys"]
    agree(logits(root, opened), expected, inputs(root)["attention_mask"])


# Flax computes ALBERT and ELECTRA otherwise than TensorFlow and PyTorch do.
@pytest.mark.parametrize("family", EACH[:4])
def test_flax_opens_the_export(root, model_of, family):
    from transformers import FlaxAutoModelForMaskedLM

    expected = logits(root, model_of(family))
    found = np.asarray(
        FlaxAutoModelForMaskedLM.from_pretrained(root / family)(**inputs(root)).logits
    )
    agree(found, expected, inputs(root)["attention_mask"])


@pytest.mark.parametrize(
    "families", [FAMILIES[:1], pytest.param(FAMILIES, marks=pytest.mark.slow)], ids=len
)
def test_pytorch_opens_the_exports(root, model_of, families):
    expected = {family: logits(root, model_of(family)) for family in families}
    run_in_pytorch("logits.py", root)
    for family in families:
        found = np.load(root / family / "pytorch.npy")
        agree(found, expected[family], inputs(root)["attention_mask"])


@pytest.mark.parametrize("family", EACH)
def test_logits_at_masked_positions_are_those_of_the_whole_model(root, model_of, family):
    given = {k: tf.constant(v, tf.int32) for k, v in inputs(root).items()}
    positions = np.array([[1, 5, 7], [2, 3, 9], [14, 1, 1]])
    found = masked_logits(model_of(family), given | {"positions": tf.constant(positions)}, False)
    whole = logits(root, model_of(family))
    expected = np.take_along_axis(whole, positions[:, :, np.newaxis], axis=1)
    assert found.shape == (3, 3, VOCABULARY)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)

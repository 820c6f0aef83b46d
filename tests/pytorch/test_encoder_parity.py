"""The encoder computes what transformers' models compute."""

import json

import numpy as np
import pytest
from in_pytorch import run_in_pytorch
from safetensors.numpy import load_file
from tiny_encoder import hidden, tiny_batch, tiny_config, tiny_encoder

from mlm.foundations.atomic import write_weights
from mlm.model.architecture import FAMILIES, Architecture, parameter_shapes
from mlm.model.network import masked_logits
from mlm.model.weights import read_parameters

# Default tests open a trained export in PyTorch; here are all families and settings.
pytestmark = pytest.mark.slow

CLASSES = {
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "roberta-prelayernorm": "RobertaPreLayerNormForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
}
#: Fields that the families have by default otherwise.
CHANGES = {
    "bert": {"hidden_act": "gelu_new", "type_vocab_size": 1},
    "roberta": {"hidden_act": "relu", "layer_norm_eps": 1e-5},
}
BIASED = dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), True) | {
    "num_hidden_layers": 3,
    "decoder_bias": False,
    "classifier_activation": "silu",
    "global_rope_theta": 500.0,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """(directory, logits by name of a model in it): rows longer than ModernBERT's window, one of
    them padded."""
    root, logits = tmp_path_factory.mktemp("encoder"), {}
    ids, mask = tiny_batch()
    np.savez(root / "inputs.npz", input_ids=ids, attention_mask=mask)
    cases = {family: (family, CHANGES.get(family, {})) for family in FAMILIES}
    for name, (family, changes) in (cases | {"biased": ("modernbert", BIASED)}).items():
        architecture, parameters = tiny_encoder(family, **changes)
        place = root / name
        write_weights(parameters, place / "model.safetensors")
        config = tiny_config(family, **changes) | {"architectures": [CLASSES[family]]}
        (place / "config.json").write_text(json.dumps(config))
        states = hidden(parameters, architecture, ids, mask)
        logits[name] = masked_logits(parameters, architecture, states)
    return root, logits


def test_pytorch_has_the_same_logits_and_saves_the_same_weights(models):
    root, logits = models
    _, mask = tiny_batch()
    run_in_pytorch("logits.py", root)
    for name, found in logits.items():
        place = root / name
        expected = np.load(place / "pytorch.npy")
        assert np.ptp(expected) > 1
        np.testing.assert_allclose(found[mask == 1], expected[mask == 1], atol=1e-4, rtol=0)
        ours = Architecture.of(json.loads((place / "config.json").read_text()))
        written = load_file(place / "model.safetensors")
        back = load_file(place / "saved" / "model.safetensors")
        assert {k: v.shape for k, v in back.items()} == parameter_shapes(ours)
        assert all(np.array_equal(back[k], written[k]) for k in back)
        assert read_parameters(place / "saved" / "model.safetensors", ours).keys() == back.keys()

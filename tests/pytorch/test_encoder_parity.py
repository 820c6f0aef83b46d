"""The network computes, in both frameworks, what transformers' models compute."""

import json

import numpy as np
import pytest
from in_pytorch import run_in
from tiny_encoder import MASK, logits, tiny_batch, tiny_config, tiny_encoder
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as CLASSES

from mlm.config.families import FAMILIES
from mlm.foundations.atomic import write_weights
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.model_files import Checkpoint, fitting

# Default tests open a trained export in PyTorch; here are all families and settings.
pytestmark = pytest.mark.slow

BIASED = dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), True) | {
    "num_hidden_layers": 3,
    "decoder_bias": False,
    "classifier_activation": "silu",
    "global_rope_theta": 500.0,
}
#: By name, a family and fields that it has by default otherwise.
CASES = {family: (family, {}) for family in FAMILIES} | {
    "bert": ("bert", {"hidden_act": "gelu_new", "type_vocab_size": 1}),
    "roberta": ("roberta", {"hidden_act": "relu", "layer_norm_eps": 1e-5}),
    "distilbert_tanh": ("distilbert", {"activation": "gelu_pytorch_tanh"}),
    "electra_silu": ("electra", {"hidden_act": "silu", "layer_norm_eps": 1e-3}),
    "electra_wide": ("electra", {"embedding_size": 32}),
    "albert_wide": ("albert", {"embedding_size": 32, "num_hidden_layers": 3}),
    "modernbert_biased": ("modernbert", BIASED),
    "esm_2": ("esm", {"token_dropout": True, "layer_norm_eps": 1e-5}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """(directory, logits by framework and name of a model in it): rows longer than ModernBERT's
    window, one of them padded, with masks."""
    root, found = tmp_path_factory.mktemp("encoder"), {}
    ids, mask = tiny_batch()
    ids[:, 3::7] = np.where(mask[:, 3::7], MASK, ids[:, 3::7])
    np.savez(root / "inputs.npz", input_ids=ids, attention_mask=mask)
    for name, (family, changes) in CASES.items():
        architecture, parameters = tiny_encoder(family, **changes)
        write_weights(parameters, root / name / "model.safetensors")
        config = tiny_config(family, **changes) | {"architectures": [CLASSES[family]]}
        (root / name / "config.json").write_text(json.dumps(config))
        for framework in ("jax", "tensorflow"):
            found[framework, name] = logits(parameters, architecture, ids, mask, framework)
    return root, found


def test_pytorch_has_the_same_logits_and_saves_the_same_weights(models):
    root, found = models
    _, mask = tiny_batch()
    run_in("pytorch", "logits.py", "pytorch", root)
    for name in CASES:
        place = root / name
        expected = np.load(place / "pytorch.npy")
        assert np.ptp(expected) > 1
        for framework in ("jax", "tensorflow"):
            ours = found[framework, name]
            message = f"{name} in {framework}"
            np.testing.assert_allclose(
                ours[mask == 1], expected[mask == 1], atol=1e-4, rtol=0, err_msg=message
            )
        architecture = Architecture.of(json.loads((place / "config.json").read_text()))
        written, back = (
            fitting(Checkpoint.read(str(at)).weights, architecture, at)
            for at in (place, place / "saved")
        )
        assert {k: v.shape for k, v in back.items()} == parameter_shapes(architecture)
        assert all(np.array_equal(back[k], written[k]) for k in back)

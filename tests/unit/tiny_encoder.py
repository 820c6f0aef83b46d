"""Encoders of every family so small that a test takes no time."""

from functools import partial

import jax
import numpy as np

from mlm.config.families import FAMILIES
from mlm.model.architecture import Architecture
from mlm.model.initialisation import initial_parameters
from mlm.model.network import DropoutKeys, Network, ops_of
from mlm.samples.random_bits import fold_in, key_of

VOCABULARY, LENGTH, PADDING, MASK = 100, 40, 1, 4

#: What the families have beside BERT's fields; of ModernBERT's layers the second is local.
FIELDS = {
    "albert": {"embedding_size": 24},
    "electra": {"embedding_size": 24},
    "esm": {"position_embedding_type": "rotary", "mask_token_id": MASK},
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
}


def network_of(architecture: Architecture, framework: str = "jax", **how) -> Network:
    return Network(architecture, ops_of(framework), **how)


@partial(jax.jit, static_argnames=("network",))
def _compiled(network: Network, *given, **settings):
    return network.hidden_states(*given, **settings)


def hidden(parameters, architecture, ids, mask, *, key=None, framework="jax", how=(), **settings):
    """`Network.hidden_states`, with dropout by the number `key`, as NumPy's."""
    network = network_of(architecture, framework, **dict(how))
    if key is not None:
        settings["dropout_keys"] = dropout_keys(architecture, key)
    compute = _compiled if framework == "jax" else Network.hidden_states
    return np.asarray(compute(network, parameters, ids, mask, **settings))


def logits(parameters, architecture, ids, mask, framework="jax"):
    """Those at all places, as NumPy's."""
    states = hidden(parameters, architecture, ids, mask, framework=framework)
    return np.asarray(network_of(architecture, framework).logits(parameters, states))


def dropout_keys(architecture: Architecture, key: int) -> DropoutKeys:
    places = fold_in(key_of(key), np.arange(architecture.layers + 1))
    return DropoutKeys(places[-1], fold_in(places[:-1, None], np.arange(4)))


def tiny_config(family: str, **changes) -> dict:
    """A config.json with the family's own names."""
    config = {"vocab_size": VOCABULARY, "pad_token_id": PADDING}
    config |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config |= {"intermediate_size": 48, "bos_token_id": 0, "eos_token_id": 2}
    config |= {"cls_token_id": 0, "sep_token_id": 2, "max_position_embeddings": LENGTH + 24}
    own = FAMILIES[family].own_names
    config |= FIELDS.get(family, {}) | changes
    return {"model_type": family} | {own.get(name, name): x for name, x in config.items()}


def tiny_encoder(family: str, **changes):
    """(architecture, parameters), every weight random: a bias of zero agrees wherever it stands."""
    architecture = Architecture.of(tiny_config(family, **changes))
    random = np.random.default_rng(0)
    return architecture, {
        name: value + random.normal(0, 0.1, value.shape).astype(np.float32)
        for name, value in initial_parameters(architecture, 0).items()
    }


def tiny_batch(rows: int = 3, length: int = LENGTH):
    """(input_ids, attention_mask) int32 [rows, length]; the second row ends in padding."""
    ids = np.random.default_rng(1).integers(5, VOCABULARY, (rows, length)).astype(np.int32)
    mask = np.ones_like(ids)
    ids[1:2, length - 11 :], mask[1:2, length - 11 :] = PADDING, 0
    return ids, mask

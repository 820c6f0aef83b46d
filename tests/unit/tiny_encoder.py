"""Encoders of every family so small that a test takes no time."""

import jax
import numpy as np

from mlm.model.architecture import Architecture
from mlm.model.network import hidden_states
from mlm.model.weights import initial_parameters

VOCABULARY, LENGTH, PADDING = 100, 40, 1

#: For compilations that take longer than what they compile.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
beginning = jax.jit(initial_parameters, static_argnums=0, compiler_options=QUICKLY)
hidden = jax.jit(
    hidden_states,
    static_argnums=1,
    static_argnames=("rematerialise", "dtype"),
    compiler_options=QUICKLY,
)


def tiny_config(family: str, **changes) -> dict:
    """A config.json; of ModernBERT's layers the second is local."""
    config = {"model_type": family, "vocab_size": VOCABULARY, "pad_token_id": PADDING}
    config |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config |= {"intermediate_size": 48, "bos_token_id": 0, "eos_token_id": 2}
    config |= {"cls_token_id": 0, "sep_token_id": 2}
    if family == "modernbert":
        return config | {"local_attention": 8, "global_attn_every_n_layers": 2} | changes
    return config | {"max_position_embeddings": LENGTH + 24} | changes


def tiny_encoder(family: str, **changes):
    """(architecture, parameters), every weight random: a bias of zero agrees wherever it stands."""
    architecture = Architecture.of(tiny_config(family, **changes))
    parameters = beginning(architecture, jax.random.key(0))
    random = np.random.default_rng(0)
    return architecture, {
        name: np.asarray(value) + random.normal(0, 0.1, value.shape).astype(np.float32)
        for name, value in parameters.items()
    }


def tiny_batch(rows: int = 3, length: int = LENGTH):
    """(input_ids, attention_mask) int32 [rows, length]; the second row ends in padding."""
    ids = np.random.default_rng(1).integers(5, VOCABULARY, (rows, length)).astype(np.int32)
    mask = np.ones_like(ids)
    ids[1:2, length - 11 :], mask[1:2, length - 11 :] = PADDING, 0
    return ids, mask

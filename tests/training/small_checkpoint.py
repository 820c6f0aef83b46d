"""A checkpoint in the Hugging Face layout that a small run can begin with."""

import numpy as np
from small_run import VOCABULARY, write_tokenizer

from mlm.foundations.atomic import write_json, write_weights
from mlm.model.architecture import Architecture, parameter_shapes

#: What `small_settings` sets and a checkpoint decides.
WEIGHTS = "model.safetensors"
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


def beginning_with(directory, engine="jax", **initialisation) -> dict:
    given = {"start_from": str(directory), "config": dict.fromkeys(SIZES)}
    return {
        "model": given | {"initialisation": {"embeddings": "random"} | initialisation},
        "pretraining": {"engine": engine, "steps": 12},
    }


def saved(place):
    """A directory with a tiny BERT of the small run's vocabulary, as transformers lays it out."""
    directory, random = write_tokenizer(place / "saved").parent, np.random.default_rng(0)
    sizes = dict(zip(SIZES, (32, 1, 2, 64), strict=True))
    config = {"model_type": "bert", "vocab_size": VOCABULARY, "max_position_embeddings": 64} | sizes
    write_json(directory / "config.json", config)
    shapes = parameter_shapes(Architecture.of(config))
    weights = {name: random.normal(0, 0.3, shape) for name, shape in shapes.items()}
    write_weights({n: w.astype(np.float32) for n, w in weights.items()}, directory / WEIGHTS)
    return directory

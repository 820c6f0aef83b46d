"""Models of every family, as a training exports them, and their logits."""

from functools import cache
from pathlib import Path

import numpy as np
from small_run import LENGTH, small_samples, write_tokenizer
from tiny_encoder import logits

from mlm.config.model import Model
from mlm.model.architecture import Architecture, model_configuration, parameter_shapes
from mlm.model.model_files import write_exported
from mlm.tokenizer.encoding import Encoder

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@cache
def inputs() -> dict[str, np.ndarray]:
    """A batch of the small run's samples; the second row ends in padding."""
    ids = small_samples(3).astype(np.int32)
    mask = np.ones_like(ids)
    ids[1, 10:], mask[1, 10:] = 1, 0
    return {"input_ids": ids, "attention_mask": mask}


def export(family: str, place: Path) -> tuple[dict[str, np.ndarray], Architecture]:
    """Export the small model of a family, whose every weight is random, to the directory."""
    sizes = dict(zip(SIZES, (32, 2, 2, 48), strict=True))
    if family in ("albert", "electra"):
        sizes["embedding_size"] = 16
    encoder = Encoder.load(write_tokenizer(place.parent / "tokenizer"))
    config = model_configuration(Model(family=family, config=sizes), encoder, LENGTH)
    architecture, random = Architecture.of(config.to_dict()), np.random.default_rng(0)
    # A bias of zero would agree wherever it ended up.
    weights = {
        name: random.normal(0, 0.1, shape).astype(np.float32)
        for name, shape in parameter_shapes(architecture).items()
    }
    place.mkdir(parents=True)
    write_exported(place, weights, config)
    return weights, architecture


def export_all(families, root: Path) -> dict[str, np.ndarray]:
    """Export them below `root`, beside inputs.npz; their logits at what is no padding."""
    np.savez(root / "inputs.npz", **inputs())
    models = {family: export(family, root / family) for family in families}
    return {family: real(logits(*model, *inputs().values())) for family, model in models.items()}


def real(found: np.ndarray) -> np.ndarray:
    """Those of logits [batch, sequence, vocabulary] that are not of padding."""
    return found[inputs()["attention_mask"] == 1]

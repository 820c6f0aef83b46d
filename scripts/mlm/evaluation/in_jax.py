"""An exported model that answers through JAX: of a family that TensorFlow lacks, or one whose
attention stays within documents."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.evaluation.scoring import ASKED, AnsweringModel
from mlm.model.network import document_numbers, hidden_states, masked_logits
from mlm.model.weights import read_exported
from mlm.training.in_jax.devices import open_mesh, shardings


def open_model(
    directory: Path, accelerator: Accelerator, begins_document: int | None = None
) -> AnsweringModel:
    """The model in `directory` on the devices of `accelerator`. With `begins_document`, the token
    that each document begins with, attention stays within."""
    devices = open_mesh(accelerator)
    architecture, weights = read_exported(directory)
    whole, divided = shardings(devices.strategy)
    weights = jax.device_put(weights, whole)
    step = jax.jit(
        masked_answers(architecture, begins_document),
        in_shardings=(whole, divided),
        out_shardings=divided,
    )

    def answers(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        batch = {name: batch[name].astype(np.int32) for name in ASKED}
        found = step(weights, jax.device_put(batch, divided))
        return {name: np.asarray(value) for name, value in found.items()}

    return AnsweringModel(answers, devices.replicas, architecture.vocabulary)


def masked_answers(architecture, begins_document: int | None = None):
    """The function (weights, batch) -> answers of `AnsweringModel`, in float32."""

    def step(weights, batch):
        ids, mask, within = batch["input_ids"], batch["attention_mask"], None
        if begins_document is not None:
            # Special tokens are never masked.
            within = document_numbers(ids, begins_document)
        hidden = hidden_states(
            weights, architecture, ids, mask, positions=batch["positions"], documents=within
        )
        logits, labels = masked_logits(weights, architecture, hidden), batch["labels"][..., None]
        log_probabilities = jax.nn.log_softmax(logits)
        label_logit = jnp.take_along_axis(logits, labels, axis=-1)
        earlier = jnp.arange(architecture.vocabulary) < labels
        above = (logits > label_logit) | ((logits == label_logit) & earlier)
        return {
            "log_probability": jnp.take_along_axis(log_probabilities, labels, axis=-1)[..., 0],
            "rank": 1 + jnp.sum(above, axis=-1, dtype=jnp.int32),
            "top_probability": jnp.exp(jnp.max(log_probabilities, axis=-1)),
        }

    return step

"""An exported model: its tokenizer, and itself, open on the devices of JAX.

JAX computes all answers, whatever framework trained: the weights are the same arrays.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.evaluation.model_answers import MODEL_INPUTS, AnsweringModel, Batch
from mlm.foundations.errors import reading
from mlm.model.model_files import read_exported
from mlm.model.network import Network, document_numbers, ops_of
from mlm.training.in_jax.devices import open_mesh, shardings


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class."""
    import transformers

    with reading(Path(directory) / "tokenizer.json", "a tokenizer"):
        load = transformers.PreTrainedTokenizerFast.from_pretrained
        return load(directory, local_files_only=True)


def open_model(
    directory: Path, accelerator: Accelerator, begins_document: int | None = None
) -> AnsweringModel:
    """The model in `directory` on the devices of `accelerator`. With `begins_document`, the token
    that each document begins with, attention stays within."""
    devices = open_mesh(accelerator)
    import jax

    architecture, weights = read_exported(directory)
    whole, divided = shardings(devices.strategy)
    weights = jax.device_put(weights, whole)
    step = masked_answers(Network(architecture, ops_of("jax")), begins_document)
    step = jax.jit(step, in_shardings=(whole, divided), out_shardings=divided)

    def answers(batch: Batch) -> Batch:
        batch = {name: batch[name].astype(np.int32) for name in MODEL_INPUTS}
        answered = step(weights, jax.device_put(batch, divided))
        return {name: np.asarray(value) for name, value in answered.items()}

    return AnsweringModel(answers, devices.replicas, architecture.vocabulary)


def masked_answers(network: Network, begins_document: int | None = None) -> Callable:
    """The function (weights, batch) -> answers of `AnsweringModel`, in float32."""
    ops = network.ops

    def step(weights, batch: dict) -> dict:
        ids, documents = batch["input_ids"], None
        if begins_document is not None:
            # Special tokens are never masked.
            documents = document_numbers(ops, ids, begins_document)
        attention, positions = batch["attention_mask"], batch["positions"]
        hidden = network.hidden_states(
            weights, ids, attention, positions=positions, documents=documents
        )
        logits, labels = network.logits(weights, hidden), batch["labels"][..., None]
        label_logits = ops.take_along_axis(logits, labels, -1)
        earlier = ops.arange(network.architecture.vocabulary) < labels
        above = (logits > label_logits) | ((logits == label_logits) & earlier)
        return {
            "log_probability": ops.take_along_axis(ops.log_softmax(logits), labels, -1)[..., 0],
            "rank": 1 + ops.sum(ops.cast(above, "int32"), axis=-1),
        }

    return step

"""An exported model: its tokenizer, and itself, open on the devices of a framework."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.evaluation.scoring import MODEL_INPUTS, AnsweringModel
from mlm.foundations.errors import reading
from mlm.model.network import Network, document_numbers, ops_of
from mlm.model.weights import read_exported


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class."""
    import transformers

    with reading(Path(directory) / "tokenizer.json", "a tokenizer"):
        load = transformers.PreTrainedTokenizerFast.from_pretrained
        return load(directory, local_files_only=True)


def open_model(
    directory: Path, framework: str, accelerator: Accelerator, begins_document: int | None = None
) -> AnsweringModel:
    """The model in `directory` on the devices of `accelerator`, opened by "tensorflow" or "jax".
    With `begins_document`, the token that each document begins with, attention stays within."""
    opened = {"jax": _in_jax, "tensorflow": _in_tensorflow}[framework]
    return opened(directory, accelerator, begins_document)


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
        log_probabilities = ops.log_softmax(logits)
        label_logits = ops.entries_at(logits, labels)
        earlier = ops.arange(network.architecture.vocabulary) < labels
        above = (logits > label_logits) | ((logits == label_logits) & earlier)
        return {
            "log_probability": ops.entries_at(log_probabilities, labels)[..., 0],
            "rank": 1 + ops.total(ops.cast(above, "int32"), axis=-1),
            "top_probability": ops.exp(ops.largest(log_probabilities, axis=-1)),
        }

    return step


def _in_jax(directory: Path, accelerator: Accelerator, begins_document) -> AnsweringModel:
    from mlm.training.in_jax.devices import open_mesh, shardings

    devices = open_mesh(accelerator)
    import jax

    architecture, weights = read_exported(directory)
    whole, divided = shardings(devices.strategy)
    weights = jax.device_put(weights, whole)
    step = masked_answers(Network(architecture, ops_of("jax")), begins_document)
    step = jax.jit(step, in_shardings=(whole, divided), out_shardings=divided)

    def answers(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        batch = {name: batch[name].astype(np.int32) for name in MODEL_INPUTS}
        found = step(weights, jax.device_put(batch, divided))
        return {name: np.asarray(value) for name, value in found.items()}

    return AnsweringModel(answers, devices.replicas, architecture.vocabulary)


def _in_tensorflow(directory: Path, accelerator: Accelerator, begins_document) -> AnsweringModel:
    from mlm.foundations.tensorflow_setup import as_written, tf
    from mlm.training.in_tensorflow.devices import open_strategy

    strategy = open_strategy(accelerator).strategy
    architecture, arrays = read_exported(directory)
    with strategy.scope():
        weights = {name: tf.Variable(tf.constant(a), trainable=False) for name, a in arrays.items()}
    step = masked_answers(Network(architecture, ops_of("tensorflow")), begins_document)
    replicas = strategy.num_replicas_in_sync

    @as_written
    def of_replica(batch):
        return step({n: tf.convert_to_tensor(v) for n, v in weights.items()}, batch)

    @tf.function(autograph=False)
    def run(batch):
        return strategy.run(of_replica, args=(batch,))

    def divided(array: np.ndarray):
        shares = [tf.constant(share, tf.int32) for share in np.split(array, replicas)]
        return strategy.experimental_distribute_values_from_function(
            lambda context: shares[context.replica_id_in_sync_group]
        )

    def answers(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = run({name: divided(batch[name]) for name in MODEL_INPUTS})
        return {
            name: np.concatenate([v.numpy() for v in strategy.experimental_local_results(value)])
            for name, value in found.items()
        }

    return AnsweringModel(answers, replicas, architecture.vocabulary)

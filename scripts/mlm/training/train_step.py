"""One update of the weights, for every framework."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlm.config.pretraining import Optimizer
from mlm.model.initialisation import Begun
from mlm.model.masked_loss import drawn_classes, masked_cross_entropy, strata
from mlm.model.network import DropoutKeys, Network, document_numbers
from mlm.samples.random_bits import fold_in, key_of
from mlm.training.devices import Devices
from mlm.training.optimizers import clipped, hidden_parts, updated


@dataclass(frozen=True)
class Computation:
    """The forward pass of a training, and its loss. Tokens attend within the "sample" or the
    "document", as `attend` says; a document begins with the token `begins_document`. The softmax of
    a training step is over at most `softmax_classes` (None: over all)."""

    network: Network
    attend: str
    begins_document: int
    softmax_classes: int | None = None

    @cached_property
    def strata(self) -> tuple | None:
        """First ids and sizes of the `strata` that classes are drawn from; None if all are used."""
        vocabulary = self.network.architecture.vocabulary
        starts, sizes = strata(vocabulary, self.softmax_classes)
        return None if len(starts) == vocabulary else (starts, sizes)

    @property
    def dropping_layers(self) -> int:
        """Number of layers with dropout keys."""
        return self.network.architecture.layers

    def weighted_sums(
        self, parameters, batch: dict, dropout_keys=None, drawn=None, lane: int = 0
    ) -> tuple:
        """Return weighted sums over a `batch` of `mask_batch`, float32: cross-entropy in nats, and
        right predictions; over all classes, or those `drawn` (see `masked_cross_entropy`)."""
        network, ops, documents = self.network, self.network.ops, None
        if self.attend == "document":
            # The masked ids tell too: the token that begins a document is never masked.
            documents = document_numbers(ops, batch["input_ids"], self.begins_document)
        hidden = network.hidden_states(
            parameters,
            batch["input_ids"],
            batch["attention_mask"],
            positions=batch["positions"],
            documents=documents,
            dropout_keys=dropout_keys,
            lane=lane,
        )
        states, table, bias = network.projection(parameters, hidden)
        states = ops.reshape(states, (-1, states.shape[-1]))
        labels, weights = (ops.reshape(batch[name], (-1,)) for name in ("labels", "weights"))
        head = states, table, bias, labels, weights
        return masked_cross_entropy(ops, *head, network.dtype, drawn)


class Task(ABC):
    """A run of pretraining, or a fold of a fine-tuning: what the loop trains. `section` names that
    of the configuration that has the learning rate, for messages."""

    name: str
    section: str
    seed: int
    optimizer: Optimizer
    steps: int
    log_every: int
    validate_every: int

    @abstractmethod
    def epoch(self, step: int) -> float:
        """Return the passes over the data after `step` updates."""

    @abstractmethod
    def tokens(self, step: int) -> int:
        """Return the tokens in the rows of `step` updates, padding included."""

    @abstractmethod
    def computation(self, devices: Devices) -> Computation:
        """Return the network, for these devices, and its loss."""

    @abstractmethod
    def starting_weights(self) -> tuple[dict[str, np.ndarray], Begun | None]:
        """Return the weights before the first step, and how a checkpoint fitted them, if any."""


@dataclass(frozen=True)
class RandomInputs:
    """The random inputs of a step beside its batch: dropout keys of each replica and accumulated
    part, and the classes of the softmax if they are drawn. The generator of the masks computes them
    from `seed` and step, so a resumed step, in either framework, draws the same."""

    computation: Computation
    seed: int
    replicas: int
    parts: int = 1

    def arrays(self, step: int) -> dict[str, np.ndarray]:
        """Return the inputs of update number `step`, from 0, as [replicas, ...]: with dropout,
        `embedding_keys` uint32 [replicas, parts, 2] and `layer_keys` uint32 [replicas, parts,
        layers, 4, 2]; if classes are drawn, `classes` int32 [replicas, classes]."""
        arrays = {}
        if self.computation.network.architecture.drops:
            key = fold_in(key_of(self.seed), np.array([step]))
            keys = fold_in(fold_in(key, np.arange(self.replicas))[:, None], np.arange(self.parts))
            places = fold_in(keys[:, :, None], np.arange(self.computation.dropping_layers + 1))
            arrays["embedding_keys"] = places[:, :, -1]  # the layers' keys come before
            arrays["layer_keys"] = fold_in(places[:, :, :-1, None], np.arange(4))
        if self.computation.strata:
            classes = drawn_classes(self.seed, step, *self.computation.strata)
            arrays["classes"] = np.repeat(classes[None], self.replicas, axis=0)
        return arrays

    def pop_from(self, batch: dict) -> tuple:
        """Pop one replica's arrays from `batch`. Return its dropout keys, and the drawn classes
        with the size of the stratum that each counts for; None for either if it is not used."""
        keys = drawn = None
        if self.computation.network.architecture.drops:
            keys = DropoutKeys(batch.pop("embedding_keys")[0], batch.pop("layer_keys")[0])
        if self.computation.strata:
            counts = self.computation.network.ops.constant(self.computation.strata[1])
            drawn = batch.pop("classes")[0], counts
        return keys, drawn


def train_step(
    computation: Computation,
    settings: Optimizer,
    all_reduce: Callable[[Any], Any],
    divided: Callable[[Callable], Callable] = lambda gradient: gradient,
) -> Callable:
    """Return the function (state, batch, keys, drawn) -> (state, loss, right) of one update:
    gradients of the parts of a replica's batch, one after the other, added up over the replicas by
    `all_reduce`, clipped, and applied by the optimizer.

    `state` has `parameters`, `moments` and `step`, int32; `batch` is a replica's, of `mask_batch`,
    with weights divided by the predictions of the whole batch; `keys` and `drawn` are those of
    `RandomInputs.pop_from`. `divided` wraps the function that computes the gradient of a part, to
    divide the part. Loss and right predictions are means over the whole batch, float32, or a
    replica's addends of them if `all_reduce` adds up only gradients.
    """
    network = computation.network
    ops, hidden = network.ops, hidden_parts(network.architecture)
    count = settings.gradient_accumulation_steps

    def step(state: dict, batch: dict, keys: DropoutKeys | None, drawn) -> tuple:
        parameters = state["parameters"]

        @divided
        def gradient_of(part: dict, keys: DropoutKeys | None = None, lane: int = 0):
            def loss(parameters):
                return computation.weighted_sums(parameters, part, keys, drawn, lane)

            return ops.value_and_grad(loss, parameters)

        if count == 1:
            sums, gradients = gradient_of(batch, keys and DropoutKeys(*(x[0] for x in keys)))
        else:
            parts = {k: ops.reshape(v, (count, -1, *v.shape[1:])) for k, v in batch.items()}
            arguments = (parts, keys) if keys else (parts,)
            sums, gradients = ops.sum_in_turn(gradient_of, arguments, parameters)
        (loss, right), gradients = all_reduce((sums, gradients))
        gradients = clipped(ops, gradients, settings.max_grad_norm)
        before = parameters, state["moments"], gradients, state["step"]
        parameters, moments = updated(ops, *before, settings, hidden, network.dtype)
        new = {"parameters": parameters, "moments": moments, "step": state["step"] + 1}
        return new, loss, right

    return step

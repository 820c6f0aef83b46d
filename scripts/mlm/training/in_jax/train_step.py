"""One update of the weights, and one look at the validation split, as functions to be compiled;
masks are drawn on the device."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from mlm.config.optimizers import Optimizer
from mlm.model.architecture import Architecture
from mlm.model.masked_loss import masked_cross_entropy
from mlm.model.network import document_numbers, hidden_states, projection
from mlm.model.sampled_softmax import strata
from mlm.samples.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.training.in_jax.devices import AXIS
from mlm.training.in_jax.optimizers import clipped, hidden_parts, updated

#: The index, -1 in 32 bits, of what fills up a last batch: nothing of it is predicted.
FILLING = 2**32 - 1


@dataclass(frozen=True)
class Computation:
    """How the network is computed: `attend` within the "sample" or the "document" (which
    `begins_document` begins), products in "float32" or "bfloat16", attention by "xla" or
    "cudnn", the softmax of a training step over at most `softmax_classes`."""

    architecture: Architecture
    attend: str
    rematerialise: bool
    precision: str
    begins_document: int
    attention: str = "xla"
    softmax_classes: int | None = None

    @property
    def dtype(self):
        return jnp.dtype(self.precision)


def packed(input_ids: np.ndarray, attention_mask: np.ndarray, vocabulary: int) -> np.ndarray:
    """Ids with the highest bit set where a token is padding: uint16 [batch, sequence] for at most
    32,768 ids, else uint32."""
    kind = token_type(vocabulary)
    return input_ids.astype(kind) | (attention_mask == 0).astype(kind) << kind(_flag(kind))


def unpacked(tokens, vocabulary: int):
    """`input_ids` and `attention_mask`, int32 [batch, sequence] of JAX, from `packed` ones."""
    flag = _flag(token_type(vocabulary))
    ids = tokens & ((1 << flag) - 1)
    return ids.astype(jnp.int32), (tokens >> flag == 0).astype(jnp.int32)


def token_type(vocabulary: int) -> type:
    """What `packed` keeps a token in."""
    return np.uint16 if vocabulary <= 2**15 else np.uint32


def _flag(kind: type) -> int:
    return 8 * kind().itemsize - 1


def train_step(
    computation: Computation, plan: MaskingPlan, settings: Optimizer, seed: int
) -> Callable:
    """The function (state, stored) -> (state, sums) of one update, on each device's share of the
    batch.

    `state` has `parameters`, `moments` and `step`, int32; `stored` has `tokens` [batch, sequence]
    of `packed`, `index` and `epoch`, uint32 [batch]. The sums are float32: the mean loss of the
    predictions, the share that is right (both 0 without any), the predictions, the overflow.
    """
    hidden = hidden_parts(computation.architecture)
    parts = settings.gradient_accumulation_steps
    starts, sizes = strata(computation.architecture.vocabulary, computation.softmax_classes)

    def step(state, stored):
        batch = _masked(computation, stored, plan, seed, stored["epoch"])
        predictions = _over_devices(jnp.sum(batch["weights"]))
        batch["weights"] /= jnp.maximum(predictions, 1.0)
        overflow = jnp.sum(batch.pop("overflow")).astype(jnp.float32)
        key = jax.random.fold_in(jax.random.key(seed), state["step"])
        drawn = None
        if len(starts) < computation.architecture.vocabulary:
            key, own = jax.random.split(key)
            places = jax.random.uniform(own, sizes.shape) * sizes
            drawn = starts + places.astype(jnp.int32), jnp.asarray(sizes)
        key = jax.random.fold_in(key, jax.lax.axis_index(AXIS))

        def share(part, number):
            def loss(parameters):
                own = jax.random.fold_in(key, number)
                return _weighted_sums(parameters, computation, part, own, drawn)

            return jax.value_and_grad(loss, has_aux=True)(state["parameters"])

        if parts == 1:
            (loss, right), gradients = share(batch, 0)
        else:
            divided = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), batch)

            def add(sums, part):
                return jax.tree.map(jnp.add, sums, share(*part)), None

            nothing = jax.tree.map(jnp.zeros_like, state["parameters"])
            begin = ((jnp.float32(0), jnp.float32(0)), nothing)
            ((loss, right), gradients), _ = jax.lax.scan(add, begin, (divided, jnp.arange(parts)))
        (loss, right, overflow), gradients = _over_devices(((loss, right, overflow), gradients))
        parameters, moments = updated(
            state["parameters"],
            state["moments"],
            clipped(gradients, settings.max_grad_norm),
            state["step"],
            settings,
            hidden,
            computation.dtype,
        )
        new = {"parameters": parameters, "moments": moments, "step": state["step"] + 1}
        sums = {"loss": loss, "accuracy": right, "predictions": predictions, "overflow": overflow}
        return new, sums

    return step


def validation_step(computation: Computation, plan: MaskingPlan, seed: int) -> Callable:
    """The function (parameters, stored) of a batch that gives its loss, right answers and number of
    predictions, float32; samples whose `index` is FILLING count for nothing."""

    def step(parameters, stored):
        batch = _masked(computation, stored, plan, seed, FIXED_EPOCH)
        batch["weights"] *= (stored["index"] != jnp.uint32(FILLING))[:, None]
        loss, right = _weighted_sums(parameters, computation, batch, None)
        return _over_devices((loss, right, jnp.sum(batch["weights"])))

    return step


def on_mesh(step: Callable, mesh) -> Callable:
    """`step`, of `train_step` or `validation_step`, on every device of `mesh`: batches are divided
    by samples, all else is whole on each."""
    whole, divided = PartitionSpec(), PartitionSpec(AXIS)
    return jax.shard_map(
        step, mesh=mesh, in_specs=(whole, divided), out_specs=whole, check_vma=False
    )


def _over_devices(addends):
    return jax.lax.psum(addends, AXIS)


def _masked(computation: Computation, stored: dict, plan: MaskingPlan, seed: int, epoch) -> dict:
    ids, attention = unpacked(stored["tokens"], computation.architecture.vocabulary)
    batch = mask_batch(ids, attention, stored["index"], plan, seed, epoch)
    if computation.attend == "document":
        # What begins a document is special, and never masked.
        batch["documents"] = document_numbers(batch["input_ids"], computation.begins_document)
    return batch


def _weighted_sums(parameters: dict, computation: Computation, batch, dropout_key, drawn=None):
    """Weighted sums over a batch: cross-entropy in nats, and correct predictions; of all classes,
    or of those `drawn`, as `masked_cross_entropy` takes them."""
    hidden = hidden_states(
        parameters,
        computation.architecture,
        batch["input_ids"],
        batch["attention_mask"],
        positions=batch["positions"],
        documents=batch.get("documents"),
        dropout_key=dropout_key,
        rematerialise=computation.rematerialise,
        dtype=computation.dtype,
        attention=computation.attention,
    )
    states, table, bias = projection(
        parameters, computation.architecture, hidden, computation.dtype
    )
    labels, weights = (batch[name].reshape(-1) for name in ("labels", "weights"))
    states = states.reshape(-1, states.shape[-1])
    return masked_cross_entropy(states, table, bias, labels, weights, computation.dtype, drawn)

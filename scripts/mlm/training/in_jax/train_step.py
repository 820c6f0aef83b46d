"""The steps of a training on a mesh of devices; masks are drawn on the device."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from mlm.config.optimizers import Optimizer
from mlm.samples.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.training import train_step as steps
from mlm.training.in_jax.devices import AXIS
from mlm.training.train_step import Computation, OfEachStep

#: The index, -1 in 32 bits, of what fills up a last batch: nothing of it is predicted.
FILLING = 2**32 - 1


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


def train_step(beside: OfEachStep, plan: MaskingPlan | None, settings: Optimizer) -> Callable:
    """The function (state, stored) -> (state, sums) of one update, on each device's share of the
    batch.

    `state` is that of `mlm.training.train_step`; `stored` has `tokens` [batch, sequence] of
    `packed`, `index` and `epoch`, uint32 [batch], or, without a `plan` of masks, the batch itself,
    and the arrays of `beside`. The sums are float32: the mean loss of the predictions, the share
    that is right (both 0 without any), the predictions, the overflow.
    """
    update = steps.train_step(beside.computation, settings, _over_devices)
    vocabulary = beside.computation.network.architecture.vocabulary

    def step(state, stored):
        stored = dict(stored)
        taken = beside.taken(stored)
        batch = stored
        if plan is not None:
            batch = _masked(vocabulary, stored, plan, beside.seed, stored["epoch"])
        predictions = _over_devices(jnp.sum(batch["weights"]))
        batch["weights"] /= jnp.maximum(predictions, 1.0)
        overflow = _over_devices(jnp.sum(batch.pop("overflow", 0)).astype(jnp.float32))
        state, loss, right = update(state, batch, *taken)
        sums = {"loss": loss, "accuracy": right, "predictions": predictions, "overflow": overflow}
        return state, sums

    return step


def validation_step(computation: Computation, plan: MaskingPlan, seed: int) -> Callable:
    """The function (parameters, stored) of a batch that gives its loss, right answers and number of
    predictions, float32; samples whose `index` is FILLING count for nothing."""
    vocabulary = computation.network.architecture.vocabulary

    def step(parameters, stored):
        batch = _masked(vocabulary, stored, plan, seed, FIXED_EPOCH)
        batch["weights"] *= (stored["index"] != jnp.uint32(FILLING))[:, None]
        loss, right = computation.weighted_sums(parameters, batch)
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


def _masked(vocabulary: int, stored: dict, plan: MaskingPlan, seed: int, epoch) -> dict:
    ids, attention = unpacked(stored["tokens"], vocabulary)
    return mask_batch(ids, attention, stored["index"], plan, seed, epoch)

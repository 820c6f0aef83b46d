"""The steps of a training on a mesh of devices; masks are drawn on the device."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mlm.config.pretraining import Optimizer
from mlm.samples.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.training import train_step as steps
from mlm.training.in_jax.devices import AXIS
from mlm.training.train_step import Computation, OfEachStep

#: Index of the rows that fill up the last batch, -1 as uint32: nothing in them is predicted.
_FILLING = 2**32 - 1


def train_step(
    beside: OfEachStep, plan: MaskingPlan | None, settings: Optimizer, seed: int | None = None
) -> Callable:
    """Return the function (state, stored) -> (state, measured) of one update, on each device's
    share of the batch.

    `state` is that of `mlm.training.train_step`; `stored` has `input_ids` and `attention_mask`,
    int32 [batch, sequence], `index` and `epoch`, uint32 [batch], or, without a `plan` of masks, the
    batch itself, and the arrays of `beside`. `seed` is that of the masks, by default the task's.
    Measured, in float32, are the mean loss of the predictions, the share that is right (both 0
    without any), the predictions, the overflow.
    """
    update = steps.train_step(beside.computation, settings, _over_devices)
    seed = beside.seed if seed is None else seed

    def step(state, stored):
        batch = dict(stored)
        taken = beside.taken(batch)
        if plan is not None:
            batch = _masked(batch, plan, seed, batch["epoch"])
        predictions = _over_devices(jnp.sum(batch["weights"]))
        batch["weights"] /= jnp.maximum(predictions, 1.0)
        overflow = _over_devices(jnp.sum(batch.pop("overflow", 0)).astype(jnp.float32))
        state, loss, right = update(state, batch, *taken)
        sums = {"loss": loss, "accuracy": right, "predictions": predictions, "overflow": overflow}
        return state, sums

    return step


def validation_step(computation: Computation, plan: MaskingPlan, seed: int) -> Callable:
    """Return the function (parameters, stored) -> (loss, right answers, predictions), float32 sums
    over a batch; rows that fill up the last batch count for nothing."""

    def step(parameters, stored):
        batch = _masked(stored, plan, seed, FIXED_EPOCH)
        batch["weights"] *= (stored["index"] != jnp.uint32(_FILLING))[:, None]
        loss, right = computation.weighted_sums(parameters, batch)
        return _over_devices((loss, right, jnp.sum(batch["weights"])))

    return step


def on_mesh(step: Callable, mesh) -> Callable:
    """Return `step`, of `train_step` or `validation_step`, run on every device of `mesh`: each has
    a share of the batch's samples, and all of the rest."""
    whole, specs = PartitionSpec(), (PartitionSpec(), PartitionSpec(AXIS))
    return jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)


def _over_devices(addends):
    return jax.lax.psum(addends, AXIS)


def _masked(stored: dict, plan: MaskingPlan, seed: int, epoch) -> dict:
    tokens = stored["input_ids"], stored["attention_mask"]
    return mask_batch(*tokens, stored["index"], plan, seed, epoch)

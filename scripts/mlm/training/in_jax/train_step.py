"""The steps of a training on a mesh of devices; masks are drawn on the device."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from mlm.config.accelerator import Accelerator
from mlm.config.pretraining import Optimizer
from mlm.foundations.terminal import show
from mlm.model.architecture import Architecture
from mlm.samples.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.training import train_step as steps
from mlm.training.devices import Devices
from mlm.training.in_jax.devices import AXIS
from mlm.training.run import Run
from mlm.training.train_step import Computation, OfEachStep

#: The index, -1 in 32 bits, of what fills up a last batch: nothing of it is predicted.
_FILLING = 2**32 - 1
#: The widest head that cuDNN takes before the H100, and the first cards that it computes attention
#: on: Ampere, by their compute capability.
_WIDEST_HEAD, _AMPERE = 128, 8.0


def packed(input_ids: np.ndarray, attention_mask: np.ndarray, vocabulary: int) -> np.ndarray:
    """Ids with the highest bit set at padding: uint16 or uint32 [batch, sequence]."""
    kind = token_type(vocabulary)
    return input_ids.astype(kind) | (attention_mask == 0).astype(kind) << kind(_flag(kind))


def unpacked(tokens, vocabulary: int):
    """`input_ids` and `attention_mask`, int32 [batch, sequence] of JAX, from `packed` ones."""
    flag = _flag(token_type(vocabulary))
    return (tokens & ((1 << flag) - 1)).astype(jnp.int32), (tokens >> flag == 0).astype(jnp.int32)


def token_type(vocabulary: int) -> type:
    """What `packed` keeps a token in."""
    return np.uint16 if vocabulary <= 2**15 else np.uint32


def _flag(kind: type) -> int:
    return 8 * kind().itemsize - 1


def train_step(
    beside: OfEachStep, plan: MaskingPlan | None, settings: Optimizer, seed: int | None = None
) -> Callable:
    """The function (state, stored) -> (state, sums) of one update, on each device's share of the
    batch.

    `state` is that of `mlm.training.train_step`; `stored` has `tokens` [batch, sequence] of
    `packed`, `index` and `epoch`, uint32 [batch], or, without a `plan` of masks, the batch itself,
    and the arrays of `beside`. `seed` is that of the masks, by default that of all else. The sums
    are float32: the mean loss of the predictions, the share that is right (both 0 without any), the
    predictions, the overflow.
    """
    update = steps.train_step(beside.computation, settings, _over_devices)
    vocabulary = beside.computation.network.architecture.vocabulary
    seed = beside.seed if seed is None else seed

    def step(state, stored):
        stored = dict(stored)
        taken = beside.taken(stored)
        batch = stored
        if plan is not None:
            batch = _masked(vocabulary, stored, plan, seed, stored["epoch"])
        predictions = _over_devices(jnp.sum(batch["weights"]))
        batch["weights"] /= jnp.maximum(predictions, 1.0)
        overflow = _over_devices(jnp.sum(batch.pop("overflow", 0)).astype(jnp.float32))
        state, loss, right = update(state, batch, *taken)
        sums = {"loss": loss, "accuracy": right, "predictions": predictions, "overflow": overflow}
        return state, sums

    return step


def validation_step(computation: Computation, plan: MaskingPlan, seed: int) -> Callable:
    """The function (parameters, stored) of a batch that gives its loss, right answers and number of
    predictions, float32; samples that fill up a last batch count for nothing."""
    vocabulary = computation.network.architecture.vocabulary

    def step(parameters, stored):
        batch = _masked(vocabulary, stored, plan, seed, FIXED_EPOCH)
        batch["weights"] *= (stored["index"] != jnp.uint32(_FILLING))[:, None]
        loss, right = computation.weighted_sums(parameters, batch)
        return _over_devices((loss, right, jnp.sum(batch["weights"])))

    return step


def on_mesh(step: Callable, mesh) -> Callable:
    """`step`, of `train_step` or `validation_step`, on every device of `mesh`: batches are divided
    by samples, all else is whole on each."""
    whole, specs = PartitionSpec(), (PartitionSpec(), PartitionSpec(AXIS))
    return jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)


def _over_devices(addends):
    return jax.lax.psum(addends, AXIS)


def _masked(vocabulary: int, stored: dict, plan: MaskingPlan, seed: int, epoch) -> dict:
    ids, attention = unpacked(stored["tokens"], vocabulary)
    return mask_batch(ids, attention, stored["index"], plan, seed, epoch)


def with_attention(devices: Devices, settings: Accelerator, run: Run) -> Devices:
    """`devices` of a training, with "attention" in their arithmetic if cuDNN computes it."""
    reason = reason_for_xla(settings, devices.kind, run)
    if devices.kind == "gpu":
        card = devices.strategy.devices.flat[0]
        if not reason and not has_cudnn_attention(card):
            reason = f"cuDNN's needs an Ampere card or newer, and this is a {card.device_kind}"
        show(f"{run.name}: attention by {f'XLA, since {reason}' if reason else 'cuDNN'}")
    if reason:
        return devices
    return replace(devices, arithmetic=devices.arithmetic | {"attention": "cudnn"})


def has_cudnn_attention(card) -> bool:
    """Whether cuDNN can compute attention on `card`, a GPU as JAX describes it."""
    return float(card.compute_capability) >= _AMPERE


def reason_for_xla(settings: Accelerator, kind: str, run: Run) -> str | None:
    """Why XLA computes attention to whole rows on a device of `kind`; None if cuDNN does."""
    architecture = Architecture.of(run.model_config.to_dict())
    head, precision = architecture.width // architecture.heads, settings.precision_on(kind)
    if kind != "gpu":
        return f"cuDNN's needs a GPU, and this training is on a {kind.upper()}"
    if precision != "bfloat16":
        return f"cuDNN's computes in bfloat16, and the products are in {precision}"
    if share := architecture.attention_dropout:
        return f"cuDNN's cannot drop, and the model drops {share:g} of attention"
    if head % 8 or head > _WIDEST_HEAD:
        return f"cuDNN's takes heads up to {_WIDEST_HEAD} wide in steps of 8, not {head} wide"
    if run.plan.sequence_length % 2:
        return "cuDNN's takes rows of an even number of tokens"
    return "accelerator.deterministic is true" if settings.deterministic else None

"""Engines and steps in JAX, on a mesh of devices; masks are drawn on the device."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import PartitionSpec

from mlm.config.pretraining import Optimizer
from mlm.samples.masking import FIXED_EPOCH, VALIDATION_SEED, MaskingPlan, mask_batch
from mlm.training.devices import Devices
from mlm.training.engine import Engine, RunEngine, flat, nested
from mlm.training.in_jax.devices import AXIS, shardings
from mlm.training.length_and_phases import TrainingPhase
from mlm.training.resolved_run import Run
from mlm.training.train_step import Computation, RandomInputs, Task, train_step

#: Index of the rows that fill up the last batch, -1 as uint32: nothing in them is predicted.
_FILLING = 2**32 - 1


class MeshEngine(Engine):
    """The engine of any task in JAX; a subclass makes the batches."""

    def __init__(self, task: Task, devices: Devices):
        self._whole, self._divided = shardings(devices.strategy)
        super().__init__(task, devices)

    def _compiled(self, plan: MaskingPlan | None, seed: int) -> Callable:
        """Compile the update of a batch that is masked on the device by this plan, if any."""
        train = masked_train_step(self._random, plan, self._optimizer, seed)
        return jax.jit(on_mesh(train, self.devices.strategy), donate_argnums=0)

    def _updated(self, update: Callable, batch: dict) -> dict[str, Any]:
        self._state, measured = update(self._state, batch)
        return measured

    def _placed(self, batch: dict[str, np.ndarray]) -> dict:
        def whole(rows: np.ndarray):
            shape = (len(rows) * self.devices.group.count, *rows.shape[1:])
            return jax.make_array_from_process_local_data(self._divided, rows, shape)

        return {name: whole(rows) for name, rows in batch.items()}

    def _put(self, arrays: dict[str, np.ndarray] | None) -> None:
        if arrays is None:
            arrays = {n: np.zeros(a.shape, a.dtype) for n, a in flat(self._state).items()}
        self._state: dict[str, Any] = {}  # So that one state at a time is in memory.
        shared = multihost_utils.broadcast_one_to_all(arrays)
        arrays = {name: np.asarray(value) for name, value in shared.items()}
        # Copied by a computation: updates overwrite the state, which must not be NumPy's memory.
        copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=self._whole)
        self._state = copy(nested(arrays))

    def _arrays(self) -> dict[str, np.ndarray]:
        # Views, on a CPU: the next update may overwrite them.
        return {name: np.asarray(value) for name, value in flat(self._state).items()}

    def _random_inputs(self, step: int) -> dict[str, np.ndarray]:
        """Return the arrays of this process's replicas that update number `step` needs."""
        replicas = self._local_rows(self.devices.replicas)
        return {name: x[replicas] for name, x in self._random.arrays(step).items()}

    def _local_rows(self, rows: int) -> np.ndarray:
        places = self._divided.addressable_devices_indices_map((rows,)).values()
        return np.sort(np.concatenate([np.arange(rows)[place] for place in places]))


class JaxEngine(MeshEngine, RunEngine):
    """The engine of a run of pretraining in JAX; samples are masked on the devices."""

    def __init__(self, run: Run, devices: Devices):
        super().__init__(run, devices)
        self._updates = [self._compiled(phase.plan, phase.seed) for phase in run.phases]
        validate = validation_step(self._computation, run.validation_plan, VALIDATION_SEED)
        self._validate = jax.jit(on_mesh(validate, devices.strategy))

    def _training_batch(self, phase: TrainingPhase, step: int, stored: dict) -> dict:
        numbers = {name: stored[name].astype(np.uint32) for name in ("index", "epoch")}
        return stored | numbers | self._random_inputs(step)

    def _validation_batch(self, stored: dict) -> dict:
        return stored | {"index": stored["index"].astype(np.uint32)}

    def _validated(self, batch: dict) -> tuple:
        return self._validate(self._state["parameters"], batch)


def masked_train_step(
    random: RandomInputs, plan: MaskingPlan | None, settings: Optimizer, seed: int | None = None
) -> Callable:
    """Return the function (state, stored) -> (state, measured) of one update, on each device's
    share of the batch.

    `state` is that of `mlm.training.train_step`; `stored` has `input_ids` and `attention_mask`,
    int32 [batch, sequence], `index` and `epoch`, uint32 [batch], or, without a `plan` of masks, the
    batch itself, and the arrays of `random`. `seed` is that of the masks, by default the task's.
    Measured, in float32, are the mean loss of the predictions, the share that is right (both 0
    without any), the predictions, the overflow.
    """
    update = train_step(random.computation, settings, _over_devices)
    seed = random.seed if seed is None else seed

    def step(state, stored):
        batch = dict(stored)
        taken = random.pop_from(batch)
        if plan is not None:
            batch = _masked(batch, plan, seed, batch["epoch"])
        predictions = _over_devices(jnp.sum(batch["weights"]))
        batch["weights"] /= jnp.maximum(predictions, 1.0)
        overflow = _over_devices(jnp.sum(batch.pop("overflow", 0)).astype(jnp.float32))
        state, loss, right = update(state, batch, *taken)
        means = {"loss": loss, "accuracy": right}
        return state, means | {"predictions": predictions, "overflow": overflow}

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
    # With check_vma, JAX would add up the gradients over the devices a second time.
    return jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)


def _over_devices(addends):
    return jax.lax.psum(addends, AXIS)


def _masked(stored: dict, plan: MaskingPlan, seed: int, epoch) -> dict:
    tokens = stored["input_ids"], stored["attention_mask"]
    return mask_batch(*tokens, stored["index"], plan, seed, epoch)

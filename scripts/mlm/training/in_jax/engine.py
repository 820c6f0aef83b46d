"""Engines in JAX: state, batches and steps, on a mesh of devices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.training.devices import Devices
from mlm.training.engine import Engine, RunEngine, Task, flat, nested
from mlm.training.in_jax.devices import shardings
from mlm.training.in_jax.mesh_steps import on_mesh, train_step, validation_step
from mlm.training.length_and_phases import TrainingPhase
from mlm.training.run import Run


class MeshEngine(Engine):
    """The engine of any task in JAX; a subclass makes the batches."""

    def __init__(self, task: Task, devices: Devices):
        self._whole, self._divided = shardings(devices.strategy)
        super().__init__(task, devices)
        self._finite = jax.jit(
            lambda tree: jnp.all(jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(tree)]))
        )

    def weights_are_finite(self) -> bool:
        return bool(self._finite(self._state["parameters"]))

    def _compiled(self, plan: MaskingPlan | None, seed: int) -> Callable:
        """Compile the update of a batch that is masked on the device by this plan, if any."""
        train = train_step(self._beside, plan, self._optimizer, seed)
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

    def _beside_batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the arrays of this process's replicas that update number `step` needs."""
        replicas = self._local_rows(self.devices.replicas)
        return {name: x[replicas] for name, x in self._beside.arrays(step).items()}

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

    def _update_of(self, phase: int) -> Callable:
        return self._updates[phase]

    def _training_batch(self, phase: TrainingPhase, step: int, stored: dict) -> dict:
        numbers = {name: stored[name].astype(np.uint32) for name in ("index", "epoch")}
        return stored | numbers | self._beside_batch(step)

    def _validation_batch(self, stored: dict) -> dict:
        return stored | {"index": stored["index"].astype(np.uint32)}

    def _validated(self, batch: dict) -> tuple:
        return self._validate(self._state["parameters"], batch)

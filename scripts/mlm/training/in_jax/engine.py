"""Engines in JAX: state, batches and steps, on a mesh of devices."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.samples.split_samples import ShardFiles, validation_samples
from mlm.samples.stored_batches import stored_batches
from mlm.training.devices import Devices
from mlm.training.engine import Engine, Task, flat, nested
from mlm.training.in_jax.devices import shardings
from mlm.training.in_jax.train_step import on_mesh, packed, train_step, validation_step
from mlm.training.run import Run


class MeshEngine(Engine):
    """A task in JAX, which says what its batches are; they are masked on the device by a `plan`."""

    def __init__(self, task: Task, devices: Devices, plan: MaskingPlan | None = None):
        self._whole, self._divided = shardings(devices.strategy)
        super().__init__(task, devices)
        self._train = self._compiled(plan, task.seed)
        self._finite = jax.jit(
            lambda tree: jnp.all(jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(tree)]))
        )
        self._batches: Iterator[dict] | None = None

    def _compiled(self, plan: MaskingPlan | None, seed: int) -> Callable:
        """The update of a batch with masks of this plan and seed."""
        train = train_step(self._beside, plan, self._optimizer, seed)
        return jax.jit(on_mesh(train, self.devices.strategy), donate_argnums=0)

    def _train_of(self, step: int) -> Callable:
        """The update after `step` ones."""
        return self._train

    @abstractmethod
    def _training_batches(self) -> Iterator[dict]:
        """The rows of each batch from update `step` on, and what the step needs beside."""

    def advance(self, steps: int) -> dict[str, float]:
        if self._batches is None:
            self._batches = self._ahead(self._training_batches())
        made = []
        for _ in range(steps):
            train = self._train_of(self.step + len(made))
            self._state, measured = train(self._state, next(self._batches))
            made.append(measured)
        self.step += steps
        # In float64, where a sum of float32 is exact: the same however many steps are added here.
        sums = dict.fromkeys(made[0], 0.0)
        for measured in made:
            predictions = np.float32(measured["predictions"])
            for name, value in measured.items():
                is_mean = name in ("loss", "accuracy")
                sums[name] += float(np.float32(value) * (predictions if is_mean else 1))
        return sums

    def weights_are_finite(self) -> bool:
        return bool(self._finite(self._state["parameters"]))

    def _put(self, arrays: dict[str, np.ndarray] | None) -> None:
        if arrays is None:
            arrays = {n: np.zeros(a.shape, a.dtype) for n, a in flat(self._state).items()}
        self._state: dict[str, Any] = {}  # One state at a time is in memory.
        shared = multihost_utils.broadcast_one_to_all(arrays)
        arrays = {name: np.asarray(value) for name, value in shared.items()}
        # Copied by a computation: what is donated later must not be the host's own memory.
        copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=self._whole)
        self._state = copy(nested(arrays))

    def _arrays(self) -> dict[str, np.ndarray]:
        # On a CPU these are no copies.
        return {name: np.asarray(value) for name, value in flat(self._state).items()}

    def _beside_batch(self, step: int) -> dict[str, np.ndarray]:
        """The arrays of this process's replicas that update number `step` needs."""
        replicas = self._own_rows(self.devices.replicas)
        return {name: x[replicas] for name, x in self._beside.arrays(step).items()}

    def _own_rows(self, rows: int) -> np.ndarray:
        """Those of `rows`, divided over all devices, that are on those of this process."""
        places = self._divided.addressable_devices_indices_map((rows,)).values()
        return np.sort(np.concatenate([np.arange(rows)[place] for place in places]))

    def _ahead(self, batches: Iterator[dict]) -> Iterator[dict]:
        """Each batch, of which `batches` have the own rows, over all devices, read one ahead."""
        replicas = self.devices.replicas
        processes = replicas // len(self._own_rows(replicas))

        def whole(own: np.ndarray):
            shape = (len(own) * processes, *own.shape[1:])
            return jax.make_array_from_process_local_data(self._divided, own, shape)

        def read() -> dict:
            return {name: whole(own) for name, own in next(batches, {}).items()}

        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(read)
            while batch := coming.result():
                coming = reader.submit(read)
                yield batch


class JaxEngine(MeshEngine):
    """A run of pretraining."""

    def __init__(self, run: Run, devices: Devices):
        self._run = run
        super().__init__(run, devices, run.phases[0].plan)
        later = {p.first: self._compiled(p.plan, p.seed) for p in run.phases[1:]}
        self._trains = {0: self._train} | later
        validate = validation_step(self._computation, run.validation_plan, VALIDATION_SEED)
        self._validate = jax.jit(on_mesh(validate, devices.strategy))
        self._validation_batches: list[dict] | None = None

    def validate(self) -> tuple[float, float]:
        sums = np.zeros(3)
        for batch in self._ahead(self._validation_samples()):
            sums += [float(x) for x in self._validate(self._state["parameters"], batch)]
        return sums[0] / sums[2], sums[1] / sums[2]

    def _train_of(self, step: int) -> Callable:
        return self._trains[self._run.phase_at(step).first]

    def _training_batches(self) -> Iterator[dict]:
        begin = self.step
        for phase in (phase for phase in self._run.phases if phase.end > begin):
            rows, order = self._own_rows(phase.batch_size), phase.order_from(begin)
            for step, whole in enumerate(stored_batches(phase.train, order), order.start_step):
                epochs, *stored = (x[rows] for x in whole)
                batch = self._stored(phase.train, *stored) | {"epoch": epochs.astype(np.uint32)}
                yield batch | self._beside_batch(step)

    def _validation_samples(self) -> Iterator[dict]:
        """Batches of one shape; a part of the split is kept in memory, and read once."""
        run = self._run
        if self._validation_batches is not None:
            yield from self._validation_batches
            return
        kept = []
        size, count = run.validation_batch_size, run.validation_rows
        rows = self._own_rows(size)
        for whole in validation_samples(run.validation, size, count):
            batch = self._stored(run.validation, *(x[rows] for x in whole))
            if count is not None:
                kept.append(batch)
            yield batch
        self._validation_batches = kept or None

    def _stored(self, shards: ShardFiles, indices: np.ndarray, records: np.ndarray) -> dict:
        ids, attention = shards.decoded(indices, records)
        tokens = packed(ids, attention, self.architecture.vocabulary)
        return {"tokens": tokens, "index": indices.astype(np.uint32)}

"""The engine of a training: weights, batches and updates, the same for the loop in both frameworks.

No generator of random numbers has a state: order, masks, dropout and drawn classes are functions of
seed and step. So weights, moments and step are all that a training needs to resume to the bit, and
its log for training.csv."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.samples.batch_order import stored_batches
from mlm.samples.shard_reading import ShardFiles, validation_samples
from mlm.training.devices import Devices
from mlm.training.length_and_phases import TrainingPhase
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.resolved_run import Run
from mlm.training.train_step import RandomInputs, Task

#: Pairs of the compiled function to call, and the arrays of its batch by name.
Batches = Iterator[tuple[Callable, dict[str, np.ndarray]]]


class Engine(ABC):
    """A task on its devices: at its first step, or at the one that `restore` set. The state is a
    dictionary of `parameters` and `moments` by name, and `step`, int32, in both frameworks."""

    def __init__(self, task: Task, devices: Devices):
        self.step, self.devices = 0, devices
        self._optimizer, self._computation = task.optimizer, task.computation(devices)
        self.architecture = self._computation.network.architecture
        parts = self._optimizer.gradient_accumulation_steps
        self._random = RandomInputs(self._computation, task.seed, devices.replicas, parts)
        self._batches: Batches | None = None
        weights, self.begun = task.starting_weights()
        #: Trainable numbers.
        self.parameter_count = sum(value.size for value in weights.values())
        self.begin_with(weights)

    def advance(self, steps: int) -> dict[str, float]:
        """Make `steps` updates; return the sums of loss, accuracy (right predictions), predictions
        and overflow, in float64. Raises MlmError if a shard is not what its manifest says."""
        if self._batches is None:
            self._batches = self._ahead(self._training_batches())
        made = []
        for _ in range(steps):
            update, batch = next(self._batches)
            made.append(self._updated(update, batch))
        self.step += steps
        # Sums of float32 are exact in float64: the same however many steps one call makes.
        sums = dict.fromkeys(made[0], 0.0)
        for measured in made:
            predictions = np.float32(measured["predictions"])
            for name, value in measured.items():
                is_mean = name in ("loss", "accuracy")
                sums[name] += float(np.float32(value) * (predictions if is_mean else 1))
        return sums

    def restart_at(self, step: int) -> None:
        """Continue with the batches after `step` updates."""
        self.step, self._batches = step, None

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights now, copied to the host."""
        prefix = "parameters/"
        arrays = {n: a for n, a in self._arrays().items() if n.startswith(prefix)}
        return {name.removeprefix(prefix): np.array(a) for name, a in arrays.items()}

    def weights_are_finite(self) -> bool:
        arrays = self._arrays().items()
        return all(np.isfinite(a).all() for name, a in arrays if name.startswith("parameters/"))

    def saved(self) -> bytes:
        """Return the state in the format of safetensors."""
        from safetensors.numpy import save

        return save(self._arrays())

    def restore(self, step: int, saved: bytes | None) -> None:
        """Continue from the state `saved` after `step` updates; None except on rank 0."""
        from safetensors.numpy import load

        self._put(load(saved) if saved is not None else None)
        self.restart_at(step)

    def begin_with(self, weights: dict[str, np.ndarray]) -> None:
        """Start from these `weights` at step 0; those of rank 0 replace all others', which another
        processor may have rounded differently."""
        # Zeros that take no memory before they are written, unlike those of `np.zeros_like`.
        zeros, parts = lambda a: np.zeros(a.shape, a.dtype), hidden_parts(self.architecture)
        moments = first_moments(zeros, weights, self._optimizer, parts)
        self._put(flat({"parameters": weights, "moments": moments, "step": np.int32(0)}))

    def _ahead(self, batches: Batches) -> Iterator[tuple[Callable, Any]]:
        """Yield `batches` placed on the devices; another thread prepares one ahead."""

        def make() -> tuple[Callable, Any] | None:
            if (following := next(batches, None)) is None:
                return None
            update, batch = following
            return update, self._placed(batch)

        with ThreadPoolExecutor(1) as maker:
            coming = maker.submit(make)
            while batch := coming.result():
                coming = maker.submit(make)
                yield batch

    @abstractmethod
    def validate(self) -> tuple[float | None, float | None]:
        """Return loss and accuracy (or score) of the validation samples; None, or in pretraining
        MlmError, without any."""

    @abstractmethod
    def _training_batches(self) -> Batches:
        """Yield the batches after `step` updates, each with the random inputs of its update."""

    @abstractmethod
    def _placed(self, batch: dict[str, np.ndarray]) -> Any:
        """Return the batch on the devices, divided among the replicas."""

    def _updated(self, update: Callable, batch: Any) -> dict[str, Any]:
        """Make the update; return scalars, float32: the mean loss of the predictions, the share
        that is right, their number, and the overflow: chosen tokens without a mask slot."""
        return update(batch)

    @abstractmethod
    def _put(self, arrays: dict[str, np.ndarray] | None) -> None:
        """Set the state from arrays with the names of `flat`; None except on rank 0."""

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the state on the host, with the names of `flat`."""


class RunEngine(Engine):
    """The engine of a run of pretraining; a subclass compiles the `_updates` of the phases."""

    _updates: list[Callable]

    def __init__(self, run: Run, devices: Devices):
        self._run = run
        super().__init__(run, devices)
        self._validation: list[tuple[Callable, dict]] | None = None

    def validate(self) -> tuple[float, float]:
        sums = np.zeros(3)
        for validate, batch in self._ahead(self._validation_batches()):
            sums += [float(x) for x in validate(batch)]
        if not sums[2]:
            raise MlmError(
                f"pretraining.validation.samples: {self._run.pretraining.validation.samples}: the "
                f"masks hide no token of the validation split's {self._run.validation.num_samples} "
                "samples. Give it more text (corpus.held_out, or its files)"
            )
        return sums[0] / sums[2], sums[1] / sums[2]

    def _training_batches(self) -> Batches:
        begin = self.step
        for number, phase in enumerate(self._run.phases):
            if phase.end <= begin:
                continue
            rows, order = self._local_rows(phase.batch_size), phase.order_from(begin)
            for step, whole in enumerate(stored_batches(phase.train, order), order.start_step):
                epochs, index, records = (x[rows] for x in whole)
                stored = _decoded(phase.train, index, records) | {"epoch": epochs}
                yield self._updates[number], self._training_batch(phase, step, stored)

    def _validation_batches(self) -> Batches:
        """Yield batches of one shape. A part of the split is read once and stays in memory."""
        run, batches = self._run, []
        if self._validation is not None:
            yield from self._validation
            return
        size, count = run.validation_batch_size, run.pretraining.validation.samples
        count = count and max(1, count // run.validation.row_samples)
        rows = self._local_rows(size)
        for index, records in validation_samples(run.validation, size, count):
            stored = _decoded(run.validation, index[rows], records[rows])
            batch = self._validated, self._validation_batch(stored)
            if count is not None:
                batches.append(batch)
            yield batch
        self._validation = batches or None

    def _local_rows(self, rows: int) -> np.ndarray:
        """Return the indices, of so many rows of a global batch, that this process computes."""
        return np.arange(rows)

    @abstractmethod
    def _training_batch(self, phase: TrainingPhase, step: int, stored: dict) -> dict:
        """Return the batch of update number `step`, from 0. `stored` has `input_ids` and
        `attention_mask`, int32 [batch, sequence], `index` and `epoch`, int64 [batch]."""

    @abstractmethod
    def _validation_batch(self, stored: dict) -> dict:
        """Return the batch of a validation; `index` is -1 in rows that fill up the last batch."""

    @abstractmethod
    def _validated(self, batch: Any) -> tuple:
        """Return sums over the predictions of a batch: loss, right answers, number."""


def _decoded(shards: ShardFiles, index: np.ndarray, records: np.ndarray) -> dict[str, np.ndarray]:
    ids, attention = (array.astype(np.int32) for array in shards.decoded(records))
    return {"input_ids": ids, "attention_mask": attention, "index": index}


def flat(tree: dict, prefix: str = "") -> dict:
    """The leaves of nested dictionaries, by the path of their keys."""
    leaves = {}
    for key, value in tree.items():
        path = prefix + key
        leaves |= flat(value, f"{path}/") if isinstance(value, dict) else {path: value}
    return leaves


def nested(leaves: dict) -> dict:
    """The nested dictionaries that `flat` made these leaves of: its inverse."""
    tree: dict = {}
    for path, value in leaves.items():
        *keys, last = path.split("/")
        branch = tree
        for key in keys:
            branch = branch.setdefault(key, {})
        branch[last] = value
    return tree

"""A training on the devices of a framework: all that the loop, states and export know of it."""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from mlm.config.pretraining import Optimizer
from mlm.model.architecture import Architecture
from mlm.model.cooccurrence import initialise_from_counts
from mlm.model.initialisation import StartingWeights
from mlm.model.warm_start import Begun
from mlm.training.devices import Devices
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.run import Run
from mlm.training.state_files import read_bytes, write_bytes
from mlm.training.train_step import Computation, OfEachStep

_FILE = "state.safetensors"


class Task(Protocol):
    """What is trained: a run of pretraining, or a fold of a fine-tuning."""

    @property
    def seed(self) -> int: ...

    @property
    def optimizer(self) -> Optimizer: ...

    def computation(self, devices: Devices) -> Computation:
        """Return the network, for these devices, and its loss."""
        ...

    def starting_weights(
        self, architecture: Architecture
    ) -> tuple[dict[str, np.ndarray], Begun | None]:
        """Return the weights before the first step, and what a checkpoint gave of them."""
        ...


class Engine(ABC):
    """A task at its start, or where `read` and then setting `step` have put it.

    The state is a dictionary of `parameters` and `moments` by name, and `step`, int32. States are
    written in one format, whatever framework computes them.
    """

    def __init__(self, task: Task, devices: Devices):
        self.step, self.devices = 0, devices
        self._optimizer, self._computation = task.optimizer, task.computation(devices)
        self.architecture = self._computation.network.architecture
        parts = self._optimizer.gradient_accumulation_steps
        self._beside = OfEachStep(self._computation, task.seed, devices.replicas, parts)
        weights, self.begun = task.starting_weights(self.architecture)
        #: Trainable numbers.
        self.parameters = sum(value.size for value in weights.values())
        self.begin_with(weights)

    def restart_at(self, step: int) -> None:
        """Go on with the batches after `step` updates."""
        self.step, self._batches = step, None

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights now, copied to the host."""
        prefix = "parameters/"
        arrays = {n: a for n, a in self._arrays().items() if n.startswith(prefix)}
        return {name.removeprefix(prefix): np.array(a) for name, a in arrays.items()}

    def write(self, place: str) -> None:
        """Write the state below `place`, a directory or gs:// prefix that is there."""
        from safetensors.numpy import save

        write_bytes(f"{place}/{_FILE}", save(self._arrays()))

    def read(self, place: str) -> None:
        """Take the state from there, read by rank 0."""
        from safetensors.numpy import load

        self._put(load(read_bytes(f"{place}/{_FILE}")) if self.devices.group.is_rank0 else None)

    def begin_with(self, weights: dict[str, np.ndarray]) -> None:
        """Begin at these, those of rank 0: another's processor may have rounded otherwise."""
        # Zeros that take no memory before they are written, unlike those of `np.zeros_like`.
        zeros, parts = lambda a: np.zeros(a.shape, a.dtype), hidden_parts(self.architecture)
        moments = first_moments(zeros, weights, self._optimizer, parts)
        self._put(flat({"parameters": weights, "moments": moments, "step": np.int32(0)}))

    @abstractmethod
    def advance(self, steps: int) -> dict[str, float]:
        """Make `steps` updates; the sums of loss, accuracy (right predictions), predictions and
        overflow, in float64. Raises MlmError if a shard is not what its manifest says."""

    @abstractmethod
    def validate(self) -> tuple[float, float]:
        """Loss in nats and accuracy at the masked positions of the validation samples."""

    @abstractmethod
    def weights_are_finite(self) -> bool:
        """Whether no trainable weight is infinite or not a number."""

    @abstractmethod
    def _put(self, arrays: dict[str, np.ndarray] | None) -> None:
        """Make these, by the names of `flat`, the state; None where rank 0 has them."""

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """The state on the host, by the names of `flat`."""


def start_from_counts(engine: Engine, run: Run) -> None:
    """Begin with `mlm.model.cooccurrence.initialise_from_counts` of the model."""
    weights = engine.weights()
    if engine.devices.group.is_rank0:
        initialise_from_counts(StartingWeights(weights, engine.architecture), run, engine.begun)
    engine.begin_with(weights)


def flat(tree: dict, prefix: str = "") -> dict:
    """The leaves of nested dictionaries, by the path of their keys."""
    leaves = {}
    for key, value in tree.items():
        path = prefix + key
        leaves |= flat(value, f"{path}/") if isinstance(value, dict) else {path: value}
    return leaves


def nested(leaves: dict) -> dict:
    """The nested dictionaries of which `flat` gives these leaves."""
    tree: dict = {}
    for path, value in leaves.items():
        *keys, last = path.split("/")
        branch = tree
        for key in keys:
            branch = branch.setdefault(key, {})
        branch[last] = value
    return tree

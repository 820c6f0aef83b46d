"""A run on the devices of a framework: all that the training loop, states and export know of it."""

from abc import ABC, abstractmethod

import numpy as np

from mlm.model.architecture import Architecture
from mlm.model.cooccurrence import initialise_from_counts
from mlm.model.export import ExportedModel
from mlm.model.initialisation import StartingWeights, neighbour_heads
from mlm.model.network import Network
from mlm.model.ops import ops_of
from mlm.model.sampled_softmax import head_in_words
from mlm.model.warm_start import Begun
from mlm.model.weights import initial_parameters
from mlm.training.devices import Devices
from mlm.training.gfile import read_bytes, write_bytes
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.run import Run
from mlm.training.train_step import Computation, OfEachStep

_FILE = "state.safetensors"


class Engine(ABC):
    """A run at its start, or where `read` and then setting `step` have put it.

    The state is a dictionary of `parameters` and `moments` by name, and `step`, int32. States are
    written in one format, whatever framework computes them.
    """

    def __init__(self, run: Run, devices: Devices):
        section = run.pretraining
        self.step, self._run, self._devices = 0, run, devices
        self._architecture = a = Architecture.of(run.model_config.to_dict())
        #: How the vocabulary is predicted, in words.
        self.head = head_in_words(a.vocabulary, section.softmax_classes)
        attention = devices.arithmetic.get("attention", "xla")
        how = devices.precision, attention, section.rematerialise
        network = Network(a, ops_of(devices.framework), *how)
        begins_document, classes = run.model_config.cls_token_id, section.softmax_classes
        self._computation = Computation(network, section.attend, begins_document, classes)
        parts = section.optimizer.gradient_accumulation_steps
        self._beside = OfEachStep(self._computation, run.seed, run.replicas, parts)
        weights = initial_parameters(a, run.seed)
        #: What a warm start gave.
        self.begun: Begun | None = None
        if run.warm_start is not None:
            weights, self.begun = run.warm_start.over(weights, a)
        elif run.model.initialisation.attention == "neighbour_heads":
            neighbour_heads(StartingWeights(weights, a), run.seed)
        #: Trainable numbers.
        self.parameters = sum(value.size for value in weights.values())
        self._begin_with(weights)

    def start_from_counts(self) -> None:
        """`mlm.model.cooccurrence.initialise_from_counts` of the model."""
        weights = self.exported().weights
        if self._devices.group.is_rank0:
            roles = StartingWeights(weights, self._architecture)
            initialise_from_counts(roles, self._run, self.begun)
        self._begin_with(weights)

    def exported(self) -> ExportedModel:
        """The model now, copied to the host."""
        prefix = "parameters/"
        arrays = {n: a for n, a in self._arrays().items() if n.startswith(prefix)}
        weights = {name.removeprefix(prefix): np.array(a) for name, a in arrays.items()}
        return ExportedModel(weights, self._run.model_config)

    def write(self, place: str) -> None:
        """Write the state below `place`, a directory or gs:// prefix that is there."""
        from safetensors.numpy import save

        write_bytes(f"{place}/{_FILE}", save(self._arrays()))

    def read(self, place: str) -> None:
        """Take the state from there, read by rank 0."""
        from safetensors.numpy import load

        is_rank0 = self._devices.group.is_rank0
        self._put(load(read_bytes(f"{place}/{_FILE}")) if is_rank0 else None)

    def _begin_with(self, weights: dict[str, np.ndarray]) -> None:
        """Begin at these, those of rank 0: another's processor may have rounded otherwise."""
        optimizer, hidden = self._run.pretraining.optimizer, hidden_parts(self._architecture)
        moments = first_moments(_zeros, weights, optimizer, hidden)
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


def _zeros(array: np.ndarray) -> np.ndarray:
    """Zeros that take no memory before they are written, unlike those of `np.zeros_like`."""
    return np.zeros(array.shape, array.dtype)


def flat(tree: dict, prefix: str = "") -> dict:
    """The leaves of nested dictionaries, by the path of their keys."""
    leaves = {}
    for key, value in tree.items():
        leaves |= (
            flat(value, f"{prefix}{key}/") if isinstance(value, dict) else {prefix + key: value}
        )
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

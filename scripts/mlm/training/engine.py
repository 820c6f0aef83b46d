"""What a training asks of the framework that computes it: all that states and export know
of TensorFlow and JAX."""

from typing import Protocol

from mlm.config.accelerator import Accelerator
from mlm.foundations.environment import NO_TENSORFLOW, installed_version
from mlm.foundations.errors import MlmError
from mlm.model.export import ExportedModel
from mlm.model.warm_start import Begun
from mlm.training.devices import Devices
from mlm.training.loop import Advancing
from mlm.training.run import Run
from mlm.training.states import State


class Engine(State, Advancing, Protocol):
    """A run at its start, or where `read` and then setting `step` have put it. `advance` sums loss,
    accuracy (right predictions), predictions and overflow, and raises MlmError if a shard is not
    what its manifest says."""

    #: Trainable numbers.
    parameters: int
    #: How the vocabulary is predicted, in words.
    head: str
    #: What a warm start gave.
    begun: Begun | None

    def start_from_counts(self) -> None:
        """`mlm.model.cooccurrence.initialise_from_counts` of the model."""

    def validate(self) -> tuple[float, float]:
        """Loss in nats and accuracy at the masked positions of the validation samples."""

    def weights_are_finite(self) -> bool:
        """Whether no trainable weight is infinite or not a number."""

    def exported(self) -> ExportedModel:
        """The model now, copied to the host."""


def open_devices(engine: str, settings: Accelerator, batch: int, together: bool = False) -> Devices:
    """The devices that `settings` ask for, opened by `engine`, "tensorflow" or "jax", before all
    else, over several processes if they train `together`; `batch` is the samples in one gradient of
    a replica. MlmError if there are none."""
    if engine == "jax":
        from mlm.training.in_jax.devices import open_mesh

        return open_mesh(settings, together)
    if installed_version("tensorflow") is None:
        raise MlmError(NO_TENSORFLOW)
    from mlm.training.in_tensorflow.devices import open_strategy

    return open_strategy(settings, batch)


def engine_of(run: Run, devices: Devices) -> Engine:
    """The run's engine, on devices that it opened."""
    if devices.framework == "jax":
        from mlm.training.in_jax.engine import Engine as JaxEngine

        return JaxEngine(run, devices)
    from mlm.training.in_tensorflow.engine import Engine as TensorFlowEngine

    return TensorFlowEngine(run, devices)

"""The devices and the engine of the framework that trains a run."""

from mlm.config.accelerator import Accelerator
from mlm.foundations.environment import NO_TENSORFLOW, installed_version
from mlm.foundations.errors import MlmError
from mlm.training.devices import Devices
from mlm.training.engine import Engine
from mlm.training.run import Run


def open_devices(engine: str, settings: Accelerator, batch: int, together: bool = False) -> Devices:
    """The devices that `settings` ask for, opened by `engine`, "tensorflow" or "jax", before all
    else, over several processes if they train `together`; `batch` is the samples in one gradient of
    a replica. Raises MlmError if there are none."""
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
        from mlm.training.in_jax.engine import JaxEngine

        return JaxEngine(run, devices)
    from mlm.training.in_tensorflow.engine import TensorFlowEngine

    return TensorFlowEngine(run, devices)

"""A run's train step in TensorFlow, compiled by XLA on this machine's CPU.

TensorFlow's documentation advises it before a step goes to a TPU: `jit_compile=True` refuses what
no XLA device runs, such as shapes that depend on data and calls of Python on the host.
"""

from collections.abc import Callable

from mlm.foundations.tensorflow_setup import tf
from mlm.training.devices import Devices
from mlm.training.in_tensorflow.engine import TensorFlowEngine
from mlm.training.run import Run


def xla_refusal_of(run: Run, devices: Devices) -> str | None:
    """XLA's words if it cannot compile the train step of `run`, that of one replica, else None."""
    return xla_refusal(*TensorFlowEngine(run, devices).step_and_batch())


def xla_refusal(step: Callable, batch: dict[str, tf.TensorSpec]) -> str | None:
    """XLA's words if it cannot compile `step`, a function of a batch like this, else None; nothing
    is executed."""
    compiled = tf.function(lambda **batch: step(batch), jit_compile=True, autograph=False)
    try:
        # Without tensors: XLA would take their values for constants.
        compiled.experimental_get_compiler_ir(**batch)(stage="optimized_hlo")
    except Exception as error:  # whatever the step raises when it is traced, lowered or compiled
        words = " ".join(str(error).split("Stack trace for op definition")[0].split())
        return f"{type(error).__name__}: {words[:600]}"
    return None

"""TensorFlow as the whole project uses it: import it from here, never directly.

transformers needs Keras 2, which TensorFlow gives only when asked before its first import, and does
not know the name of the package of TPU VMs.
"""

import importlib.util
import os

# TensorFlow exports an SQLite of its own, without FTS5: whichever is loaded first serves both.
import sqlite3  # noqa: F401
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
os.environ.setdefault("USE_TORCH", "0")
if importlib.util.find_spec("tensorflow") is not None:
    os.environ.setdefault("FORCE_TF_AVAILABLE", "1")


@contextmanager
def _as_if_missing(*names: str) -> Iterator[None]:
    hidden = dict.fromkeys(name for name in names if name not in sys.modules)
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


# Both import these if they are installed, for what is not used here: 1 s and 200 MB.
with _as_if_missing("jax", "pandas", "scipy"):
    import tensorflow as tf
    import tf_keras

__all__ = ["as_written", "in_one_pass", "make_deterministic", "tf", "tf_keras"]

#: For functions that TensorFlow traces and that branch on no tensor, nor does what they call.
#: AutoGraph would rewrite the source of them all first, which takes a process several seconds.
as_written = tf.autograph.experimental.do_not_convert


def make_deterministic(seed: int) -> None:
    """Seed Python, NumPy and TensorFlow, turn on deterministic kernels, and give each dropout layer
    a generator of its own whose state can be saved."""
    # Never 0: tf.data compares a seed pair with (0, 0), which fails for a seed in a tensor.
    tf_keras.utils.set_random_seed(seed % (2**31 - 2) + 1)
    tf.config.experimental.enable_op_determinism()
    tf_keras.backend.experimental.enable_tf_random_generator()


def in_one_pass(function: Callable) -> Callable:
    """Compile the elementwise `function` with XLA where all devices are CPUs, so that memory is
    read and written once instead of once per operation."""

    @cache
    def compiled(*_specs: tf.TensorSpec) -> Callable:
        # One per shape: TensorFlow warns of a function that it traces for many.
        return tf.function(lambda *own: function(*own), jit_compile=True, autograph=False)

    def called(*arguments):
        if any(device.device_type != "CPU" for device in tf.config.list_logical_devices()):
            return function(*arguments)
        return compiled(*(tf.TensorSpec(a.shape, a.dtype) for a in arguments))(*arguments)

    return called

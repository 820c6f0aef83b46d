"""TensorFlow as the whole project uses it: import it from here, never directly."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextmanager
def _as_if_missing(*names: str) -> Iterator[None]:
    hidden: dict[str, Any] = dict.fromkeys(name for name in names if name not in sys.modules)
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


# Both import these if they are installed, for what is not used here: 1 s and 200 MB.
with _as_if_missing("jax", "pandas", "scipy"):
    import tensorflow as tf

# It warns of functions that are compiled for several shapes, as `in_one_pass` does on purpose.
tf.get_logger().setLevel("ERROR")

__all__ = ["in_one_pass", "tf"]


def in_one_pass(function: Callable) -> Callable:
    """Compile the elementwise `function` with XLA where all devices are CPUs, so that memory is
    read and written once instead of once per operation."""

    @cache
    def compiled(*_specs: tf.TensorSpec) -> Callable:
        # One per shape: TensorFlow warns of a function that it traces for many.
        return tf.function(lambda *arrays: function(*arrays), jit_compile=True, autograph=False)

    def called(*arguments):
        if any(device.device_type != "CPU" for device in tf.config.list_logical_devices()):
            return function(*arguments)
        return compiled(*(tf.TensorSpec(a.shape, a.dtype) for a in arguments))(*arguments)

    return called

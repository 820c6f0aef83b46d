"""Where the operations of a framework are.

Network, loss, optimizers and steps are written once, on functions that `mlm.model.jax_ops` and
`mlm.model.tensorflow_ops` both have: under the names of NumPy or of `jax.lax` where these have
them, with what each framework needs to be fast.
"""

from importlib import import_module
from typing import Any


def ops_of(framework: str) -> Any:
    """The module of operations in "jax" or in "tensorflow", which it imports."""
    return import_module(f"mlm.model.{framework}_ops")

"""Functions of arrays as each framework computes them."""

from functools import partial

import jax
import numpy as np
import pytest

from mlm.model.network import ops_of

FRAMEWORKS = ("jax", "tensorflow")
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def in_framework(framework: str, function):
    """`function` of nested arrays of NumPy, which gives such; JAX compiles it once."""
    if framework == "jax":
        compiled = jax.jit(function)
    else:

        def compiled(*arguments):
            return function(*jax.tree.map(ops_of("tensorflow").constant, arguments))

    return lambda *arguments: jax.tree.map(np.asarray, compiled(*arguments))


def held(framework: str, tree):
    """The arrays of `tree` in what holds a state: TensorFlow updates variables in place."""
    if framework == "jax":
        return tree
    from mlm.foundations.tensorflow_setup import tf

    return jax.tree.map(tf.Variable, tree)


def computed(framework: str, function, *arguments, **how):
    """The results of `function` of these arguments, nested arrays of NumPy, with `how` bound."""
    return in_framework(framework, partial(function, **how))(*arguments)


def with_gradients(framework: str, loss, parameters: dict):
    """((loss, other), gradients) of the function `loss` of a dictionary, which gives the two."""
    return computed(
        framework, lambda given: ops_of(framework).value_and_grad(loss, given), parameters
    )


def alike(one, other, **tolerance) -> None:
    """Assert that two trees of arrays are close."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, a), b in zip(jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True):
        name = jax.tree_util.keystr(path)
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype, name
        np.testing.assert_allclose(a, b, err_msg=name, **tolerance)

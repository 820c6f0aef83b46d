from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mlm.model.masked_loss import masked_cross_entropy

WIDTH, CLASSES = 8, 30


def sample(predictions, scale=1.0):
    random = np.random.default_rng(0)
    shapes = ((predictions, WIDTH), (CLASSES, WIDTH), (CLASSES,))
    drawn = [random.normal(0, 1, shape).astype(np.float32) for shape in shapes]
    drawn[0] *= scale
    labels = random.integers(0, CLASSES, predictions).astype(np.int32)
    return *drawn, labels, random.random(predictions).astype(np.float32)


def written_out(states, table, bias, labels, weights):
    logits = jnp.matmul(states, table.T, precision="highest") + bias
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)[:, 0]
    return jnp.sum(losses * weights), jnp.sum(weights * (jnp.argmax(logits, axis=1) == labels))


def gradients(function, given):
    """Loss and right answers; gradients of a multiple of the loss, as of a loss within another."""

    def multiple(differentiable, labels):
        loss, right = function(*differentiable[:3], labels, differentiable[3])
        return 3 * loss, (loss, right)

    states, table, bias, labels, weights = given
    found = jax.jit(jax.grad(multiple, has_aux=True))((states, table, bias, weights), labels)
    return jax.tree.map(np.asarray, found)


# 50 are four blocks, of 13: the last is filled up.
@pytest.mark.parametrize(
    "predictions, scale",
    [(1, 1.0), (50, 9.0), *(pytest.param(*p, marks=pytest.mark.slow) for p in ((16, 1), (50, 0)))],
)
def test_it_and_its_gradients_are_those_of_the_product_written_out(predictions, scale):
    given = sample(predictions, scale)
    found, ours = gradients(masked_cross_entropy, given)
    expected, theirs = gradients(written_out, given)
    if scale:  # of classes that are all alike, argmax names the first
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-5)
    alone = jax.jit(masked_cross_entropy)(*given)
    np.testing.assert_allclose(alone, ours, rtol=1e-6)


def test_products_in_bfloat16_are_close_and_added_up_in_float32():
    given = sample(50)
    exact, kept = gradients(masked_cross_entropy, given)
    coarse, found = gradients(partial(masked_cross_entropy, dtype=jnp.bfloat16), given)
    assert 0 < abs(found[0] - kept[0]) < 0.01 * kept[0]
    for one, other in zip(exact, coarse, strict=True):
        assert other.dtype == np.float32
        assert 0 < np.abs(one - other).max() < 0.02 * np.abs(one).max()
    function = jax.grad(masked_cross_entropy, argnums=(0, 1, 2), has_aux=True)
    text = jax.jit(function, static_argnums=5).lower(*given, jnp.bfloat16).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line and "bf16" in line]
    assert len(products) == 4
    assert all(line.rstrip().endswith("f32>") for line in products)


def test_its_memory_does_not_grow_with_predictions_times_classes():
    classes, width = 4096, 16

    def temporaries(predictions):
        shapes = ((predictions, width), (classes, width), (classes,), (predictions,))
        shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (*shapes, shapes[-1])]
        shapes[3] = jax.ShapeDtypeStruct((predictions,), jnp.int32)
        function = jax.jit(jax.grad(masked_cross_entropy, argnums=(0, 1, 2), has_aux=True))
        return function.lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    few, many = 128, 2048
    assert temporaries(many) - temporaries(few) < 0.05 * (many - few) * classes * 4

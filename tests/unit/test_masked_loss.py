"""The loss of masked positions, over all classes or over drawn ones, in every framework."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_frameworks import computed, each_framework, in_framework, with_gradients

from mlm.model.masked_loss import masked_cross_entropy, strata
from mlm.model.network import ops_of

WIDTH, VOCABULARY = 8, 30


def sample(predictions: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"states": (predictions, WIDTH), "table": (VOCABULARY, WIDTH), "bias": (VOCABULARY,)}
    drawn = {n: random.normal(0, 1, shape).astype(np.float32) for n, shape in shapes.items()}
    drawn["states"] *= scale
    labels = random.integers(0, VOCABULARY, predictions).astype(np.int32)
    return drawn | {"labels": labels, "weights": random.random(predictions, np.float32)}


def of_heads(framework: str, given: dict, drawn=None, **how):
    """Loss and right answers; gradients of a multiple of the loss, as of a loss within another."""
    ops, given = ops_of(framework), dict(given)
    counted = [ops.constant(given.pop(name)) for name in ("labels", "weights")]
    drawn = drawn and [ops.constant(x) for x in drawn]

    def loss(heads):
        head = (heads[name] for name in ("states", "table", "bias"))
        loss, right = masked_cross_entropy(ops, *head, *counted, drawn=drawn, **how)
        return 3 * loss, right

    (loss, right), gradients = with_gradients(framework, loss, given)
    return loss / 3, right, *(gradients[name] / 3 for name in ("states", "table", "bias"))


def written_out(given: dict, drawn):
    """Loss, right answers and gradients by the probabilities of every sample, in float64."""
    states, table, bias, labels, weights = (np.asarray(x, np.float64) for x in given.values())
    loss, right = 0.0, 0.0
    found = [np.zeros_like(x) for x in (states, table, bias)]
    for n, label in enumerate(labels.astype(int)):
        terms = {int(c): k for c, k in zip(*drawn, strict=True) if c != label} | {label: 1.0}
        ids, counts = np.array(list(terms)), np.array(list(terms.values()))
        logits = table[ids] @ states[n] + bias[ids]
        shares = counts * np.exp(logits - logits.max())
        shares /= shares.sum()
        loss -= weights[n] * np.log(shares[-1])
        right += weights[n] * (logits[-1] >= logits.max())
        shares[-1] -= 1
        shares *= weights[n]
        found[0][n] = shares @ table[ids]
        found[1][ids] += shares[:, None] * states[n]
        found[2][ids] += shares
    return loss, right, *found


# 50 are four blocks of JAX, of 13: the last is filled up. With a scale of 0 all classes are alike.
@pytest.mark.parametrize(
    "classes, predictions, scale", [(12, 50, 1.0), (None, 50, 9.0), (None, 1, 1.0), (None, 16, 0)]
)
@each_framework
def test_loss_and_gradients_are_those_of_the_product_written_out(
    framework, classes, predictions, scale
):
    given, (starts, sizes) = sample(predictions, scale), strata(VOCABULARY, classes)
    drawn = (starts + sizes // 2).astype(np.int32), sizes
    # Labels among the drawn and beside them.
    assert classes is None or 0 < np.isin(given["labels"], drawn[0]).sum() < predictions
    ours = of_heads(framework, given, drawn if classes else None)
    for mine, right in zip(ours, written_out(given, drawn), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-5)
    # Without gradients, as in validation.
    function = partial(masked_cross_entropy, ops_of(framework), dtype="float32")
    alone = computed(
        framework, partial(function, drawn=drawn if classes else None), *given.values()
    )
    np.testing.assert_allclose(alone, ours[:2], rtol=1e-6)


@each_framework
def test_the_loss_of_states_that_are_not_finite_is_not_finite(framework):
    loss = in_framework(framework, partial(masked_cross_entropy, ops_of(framework)))
    for value in (np.nan, np.inf):
        given = sample(4)
        given["states"][1, 2] = value
        assert not np.isfinite(loss(*given.values())[0])


@each_framework
def test_products_in_bfloat16_are_close_and_added_up_in_float32(framework):
    given = sample(50)
    exact = of_heads(framework, given)
    coarse = of_heads(framework, given, dtype="bfloat16")
    assert 0 < abs(coarse[0] - exact[0]) < 0.01 * exact[0]
    for one, other in zip(exact[2:], coarse[2:], strict=True):
        assert other.dtype == np.float32
        assert 0 < np.abs(one - other).max() < 0.02 * np.abs(one).max()


def test_in_jax_its_memory_does_not_grow_with_predictions_times_classes():
    classes, width = 4096, 16

    def temporaries(predictions):
        shapes = ((predictions, width), (classes, width), (classes,), (predictions,))
        shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (*shapes, shapes[-1])]
        shapes[3] = jax.ShapeDtypeStruct((predictions,), jnp.int32)
        function = partial(masked_cross_entropy, ops_of("jax"))
        gradients = jax.jit(jax.grad(function, argnums=(0, 1, 2), has_aux=True))
        return gradients.lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    few, many = 128, 2048
    assert temporaries(many) - temporaries(few) < 0.05 * (many - few) * classes * 4

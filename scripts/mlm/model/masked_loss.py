"""The loss of masked positions without logits or gradients as large as predictions × vocabulary."""

from functools import partial

import jax
import jax.numpy as jnp

#: A block's logits over the gradient of the table: from a block to the next the table's gradient is
#: read and written, so that smaller blocks take longer, and larger ones take more memory.
_LOGITS_OVER_TABLE = 2


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def masked_cross_entropy(states, table, bias, labels, weights, dtype=jnp.float32):
    """Weighted sums of cross-entropy in nats and of right answers, of states · tableᵀ + bias.

    `states` [predictions, width], `table` [classes, width] and `bias` [classes] are those of
    `network.projection`; `labels` int32 and `weights` float32 are [predictions]. Right is a label
    that no class is likelier than. Both sums are float32; products are in `dtype`.

    Logits, and at once their part of the gradient, are made for a block of predictions at a time
    (Hsu et al., "Liger kernel", 2024, arXiv 2410.10989). On a mesh, call this inside of
    `jax.shard_map`.
    """

    def add(sums, block):
        _, _, losses, right = _answers(block, rows, bias)
        share = block[2]
        return (sums[0] + losses @ share, sums[1] + right @ share), None

    rows = table.astype(dtype)
    zero = jnp.zeros((), jnp.float32)
    return jax.lax.scan(add, (zero, zero), _blocks(states, labels, weights))[0]


def _forward(states, table, bias, labels, weights, dtype):
    def add(sums, block):
        parts, labels, share = block
        exponentials, totals, losses, right = _answers(block, rows, bias)
        exponentials, scale = exponentials.astype(dtype), share / totals
        of_parts = product(exponentials, rows) * scale[:, None]
        of_parts -= rows[labels] * share[:, None]
        # Transposed: a CPU transposes the smaller factor faster than the larger one.
        scaled = (parts * scale[:, None]).astype(dtype)
        of_table = product(scaled.T, exponentials)
        of_bias = product(scale.astype(dtype), exponentials)
        found = (losses @ share, right @ share, of_table, of_bias)
        return jax.tree.map(jnp.add, sums, found), (of_parts, losses, right)

    product = partial(jnp.matmul, preferred_element_type=jnp.float32)
    rows = table.astype(dtype)
    shapes = ((), (), table.shape[::-1], bias.shape)
    sums = tuple(jnp.zeros(shape, jnp.float32) for shape in shapes)
    sums, each = jax.lax.scan(add, sums, _blocks(states, labels, weights))
    of_states, losses, right = (x.reshape(-1, *x.shape[2:])[: len(labels)] for x in each)
    loss, answers, of_table, of_bias = sums
    of_table = of_table.T.at[labels].add(-states.astype(jnp.float32) * weights[:, None])
    of_bias = of_bias.at[labels].add(-weights)
    kept = [x.astype(y.dtype) for x, y in ((of_states, states), (of_table, table), (of_bias, bias))]
    return (loss, answers), (*kept, losses, right)


def _backward(dtype, kept, given):
    of_loss, of_right = given
    *gradients, losses, right = kept
    return *(x * of_loss for x in gradients), None, losses * of_loss + right * of_right


masked_cross_entropy.defvjp(_forward, _backward)


def _answers(block, rows, bias):
    """exp(logits - highest) [predictions, classes]; sums, losses, right answers [predictions]."""
    states, labels, _ = block
    logits = jnp.matmul(states.astype(rows.dtype), rows.T, preferred_element_type=jnp.float32)
    logits += bias
    asked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    highest = jnp.max(logits, axis=1)
    exponentials = jnp.exp(logits - highest[:, None])
    totals = jnp.sum(exponentials, axis=1)
    losses = highest - asked + jnp.log(totals)
    return exponentials, totals, losses, (asked == highest).astype(jnp.float32)


def _blocks(states, labels, weights):
    """The three as [blocks, predictions, ...]; what is filled up weighs nothing."""
    count, width = states.shape
    blocks = -(-count // (_LOGITS_OVER_TABLE * width))
    size = -(-count // blocks)

    def divided(x):
        more = [(0, blocks * size - count), *[(0, 0)] * (x.ndim - 1)]
        return jnp.pad(x, more).reshape(blocks, size, *x.shape[1:])

    return divided(states), divided(labels), divided(weights)

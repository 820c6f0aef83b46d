"""The loss of masked positions without logits or gradients as large as predictions × vocabulary."""

from functools import partial

import jax
import jax.numpy as jnp

#: A block's logits over the gradient of the table: from a block to the next the table's gradient is
#: read and written, so that smaller blocks take longer, and larger ones take more memory.
_LOGITS_OVER_TABLE = 2


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def masked_cross_entropy(states, table, bias, labels, weights, dtype=jnp.float32, drawn=None):
    """Weighted sums of cross-entropy in nats and of right answers, of states · tableᵀ + bias.

    `states` [predictions, width], `table` [vocabulary, width] and `bias` [vocabulary] are those of
    `network.projection`; `labels` int32 and `weights` float32 are [predictions]. Beside the label
    the softmax adds up all classes, or those `drawn`, int32 [classes], and how often it adds each,
    float32 [classes]. Right is a label that none of them is likelier than. Both sums are float32;
    products are in `dtype`.

    Logits, and at once their part of the gradient, are made for a block of predictions at a time
    (Hsu et al., "Liger kernel", 2024, arXiv 2410.10989). On a mesh, call this inside of
    `jax.shard_map`.
    """

    def add(sums, block):
        _, _, _, losses, right = _answers(block, head)
        share = block[2]
        return (sums[0] + losses @ share, sums[1] + right @ share), None

    head = _head(table, bias, dtype, drawn)
    zero = jnp.zeros((), jnp.float32)
    return jax.lax.scan(add, (zero, zero), _blocks(states, labels, weights))[0]


def _head(table, bias, dtype, drawn):
    """Of the classes drawn: rows [classes, width] in `dtype`; biases, ids and logarithms of how
    often each counts, [classes]; rows and biases of the vocabulary."""
    table = table.astype(dtype)
    if drawn is None:
        return table, bias, jnp.arange(len(table)), jnp.zeros(len(table)), table, bias
    classes, counts = drawn
    return table[classes], bias[classes], classes, jnp.log(counts), table, bias


def _forward(states, table, bias, labels, weights, dtype, drawn):
    def add(sums, block):
        parts, labels, share = block
        exponentials, others, totals, losses, right = _answers(block, head)
        exponentials, scale = exponentials.astype(dtype), share / totals
        pulls = scale * others
        of_parts = product(exponentials, rows) * scale[:, None]
        of_parts -= every_row[labels] * pulls[:, None]
        # Transposed: a CPU transposes the smaller factor faster than the larger one.
        scaled = (parts * scale[:, None]).astype(dtype)
        of_table = product(scaled.T, exponentials)
        of_bias = product(scale.astype(dtype), exponentials)
        found = (losses @ share, right @ share, of_table, of_bias)
        return jax.tree.map(jnp.add, sums, found), (of_parts, pulls, losses, right)

    product = partial(jnp.matmul, preferred_element_type=jnp.float32)
    head = rows, _, classes, _, every_row, _ = _head(table, bias, dtype, drawn)
    shapes = ((), (), rows.shape[::-1], classes.shape)
    sums = tuple(jnp.zeros(shape, jnp.float32) for shape in shapes)
    sums, each = jax.lax.scan(add, sums, _blocks(states, labels, weights))
    of_states, pulls, losses, right = (x.reshape(-1, *x.shape[2:])[: len(labels)] for x in each)
    loss, answers, of_table, of_bias = sums
    of_table = of_table.T
    if drawn is not None:
        of_table = jnp.zeros(table.shape, jnp.float32).at[classes].set(of_table)
        of_bias = jnp.zeros(bias.shape, jnp.float32).at[classes].set(of_bias)
    of_table = of_table.at[labels].add(-states.astype(jnp.float32) * pulls[:, None])
    of_bias = of_bias.at[labels].add(-pulls)
    kept = [x.astype(y.dtype) for x, y in ((of_states, states), (of_table, table), (of_bias, bias))]
    return (loss, answers), (*kept, losses, right)


def _backward(dtype, kept, given):
    of_loss, of_right = given
    *gradients, losses, right = kept
    of_weights = losses * of_loss + right * of_right
    return *(x * of_loss for x in gradients), None, of_weights, None


masked_cross_entropy.defvjp(_forward, _backward)


def _answers(block, head):
    """exp(logits - highest) of the classes but the label [predictions, classes]; their sums, those
    with the label, losses, right answers [predictions]."""
    (states, labels, _), (rows, bias, classes, log_counts, every_row, every_bias) = block, head
    states = states.astype(rows.dtype)
    logits = jnp.matmul(states, rows.T, preferred_element_type=jnp.float32) + bias
    logits = jnp.where(classes == labels[:, None], -jnp.inf, logits)
    asked = states.astype(jnp.float32) * every_row[labels].astype(jnp.float32)
    asked = jnp.sum(asked, axis=1) + every_bias[labels]
    right = (asked >= jnp.max(logits, axis=1)).astype(jnp.float32)
    logits += log_counts
    highest = jnp.maximum(jnp.max(logits, axis=1), asked)
    exponentials = jnp.exp(logits - highest[:, None])
    others = jnp.sum(exponentials, axis=1)
    totals = others + jnp.exp(asked - highest)
    return exponentials, others, totals, highest - asked + jnp.log(totals), right


def _blocks(states, labels, weights):
    """The three as [blocks, predictions, ...]; what is filled up weighs nothing."""
    count, width = states.shape
    blocks = -(-count // (_LOGITS_OVER_TABLE * width))
    size = -(-count // blocks)

    def divided(x):
        more = [(0, blocks * size - count), *[(0, 0)] * (x.ndim - 1)]
        return jnp.pad(x, more).reshape(blocks, size, *x.shape[1:])

    return divided(states), divided(labels), divided(weights)

"""The operations of network, loss and optimizers in JAX, under the names of NumPy or of `jax.lax`
where these have them. `mlm.model.tensorflow_ops` has the same in TensorFlow."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

#: Whether the loss is computed for a block of predictions at a time.
scans_blocks = True
#: What stands for the logit of a class that is left out.
left_out = -math.inf
constant, log_softmax, map_blocks, scan = jnp.asarray, jax.nn.log_softmax, lax.map, lax.scan
sigmoid = jax.nn.sigmoid


def __getattr__(name: str) -> Any:
    """Return the operation of `jax.numpy`, for those that are not here."""
    return getattr(jnp, name)


def cast(x, dtype: str):
    return x.astype(dtype)


def mean(x):
    """The mean over the last axis, which stays."""
    return jnp.mean(x, axis=-1, keepdims=True)


def cummax(x):
    """The largest of int32 [batch, sequence] up to each position of the sequence."""
    return lax.cummax(x, axis=1)


def rows_at(table, ids):
    """The rows of `table` [rows, ...] at `ids`."""
    return table[ids]


def rows_added(table, ids, rows):
    """`table` with `rows` added at `ids`, which may name one several times."""
    return table.at[ids].add(rows)


def rows_summed(count: int, ids, rows, more_ids, more_rows):
    """`count` rows, sums of `rows` at `ids`, which are different, and `more_rows` at `more_ids`."""
    return jnp.zeros((count, *rows.shape[1:])).at[ids].set(rows).at[more_ids].add(more_rows)


def positions_of(x, positions):
    """[1 or batch, sequence, ...] at `positions` [batch, slots]: [batch, slots, ...]."""
    x = jnp.broadcast_to(x, (positions.shape[0], *x.shape[1:]))
    return jnp.take_along_axis(x, positions.reshape(*positions.shape, *[1] * (x.ndim - 2)), axis=1)


def places(shape):
    """The place of each entry of an array of this shape, modulo 2**32: uint32."""
    index = jnp.zeros(shape, jnp.uint32)
    for axis, size in enumerate(shape):
        index = index * jnp.uint32(size) + lax.broadcasted_iota(jnp.uint32, shape, axis)
    return index


def product(x, y, x_transposed: bool = False, y_transposed: bool = False):
    """x · y of matrices or stacks of them, added up and returned in float32."""
    x = x.T if x_transposed else x
    return jnp.matmul(x, y.T if y_transposed else y, preferred_element_type=jnp.float32)


@jax.custom_vjp
def dense(x, weight, bias):
    """`x` [..., inputs] · `weight`ᵀ + `bias` (or None), with a gradient written out for XLA on a
    CPU, which adds up columns, and turns a large factor, at a tenth of the speed."""
    return x @ weight.T if bias is None else x @ weight.T + bias


def _dense_forward(x, weight, bias):
    return dense(x, weight, bias), (x, weight, bias)


def _dense_backward(inputs, grad):
    x, weight, bias = inputs
    grad_x = grad @ weight
    x, grad = (value.reshape(-1, value.shape[-1]) for value in (x, grad))
    narrow = grad.shape[1] < x.shape[1]
    grad_weight = grad.T @ x if narrow else (x.T @ grad).T
    grad_bias = None if bias is None else jnp.ones(len(grad), grad.dtype) @ grad
    return grad_x, grad_weight, grad_bias


dense.defvjp(_dense_forward, _dense_backward)


def attention_shares(query, key, mask):
    """Shares of attention float32 [batch, heads, queries, keys], of [batch, tokens, heads, width]
    each and `mask` [batch, 1, 1 or queries, keys]."""
    scores = jnp.einsum("btnh,bsnh->bnts", query, key).astype(jnp.float32)
    scores = jnp.where(mask, scores / math.sqrt(query.shape[-1]), jnp.finfo(jnp.float32).min)
    return jax.nn.softmax(scores)


def attention_output(shares, value):
    """`value` [batch, keys, heads, width] by its shares: [batch, queries, heads, width]."""
    return jnp.einsum("bnts,bsnh->btnh", shares, value)


def exponentials(logits, label_logits):
    """Of `logits` [predictions, classes] and the labels' [predictions]: numbers in proportion to
    their exponentials, the sums of these without and with the label's, and the loss in nats."""
    highest = jnp.maximum(jnp.max(logits, axis=1), label_logits)
    numbers = jnp.exp(logits - highest[:, None])
    negatives = jnp.sum(numbers, axis=1)
    totals = negatives + jnp.exp(label_logits - highest)
    return numbers, negatives, totals, highest - label_logits + jnp.log(totals)


def fused(function: Callable) -> Callable:
    """The elementwise `function` as one pass over memory, which XLA makes of it anyway."""
    return function


def rematerialised(function: Callable, in_loop: bool = False) -> Callable:
    """`function` of arrays, computed again for its gradient (Chen et al., 2016)."""
    return jax.checkpoint(function, prevent_cse=not in_loop)


def with_gradients(value: Callable, forward: Callable) -> Callable:
    """The function `value`, whose gradients `forward` computes: it gives the outputs, and of each
    argument the gradient of the first output, or None."""

    def backward(gradients, grad_outputs):
        return tuple(None if g is None else g * grad_outputs[0] for g in gradients)

    function = jax.custom_vjp(value)
    function.defvjp(forward, backward)
    return function


def value_and_grad(function: Callable, parameters: dict):
    """Outputs of `function` at the dictionary `parameters`, and the gradient of the first."""
    return jax.value_and_grad(function, has_aux=True)(parameters)


def sum_in_turn(function: Callable, parts: tuple, parameters: dict):
    """The sum of `function`, whose values are those of `value_and_grad`, over the first axis of
    the arrays in `parts`, its arguments, in order."""

    def add(sums, part):
        return jax.tree.map(jnp.add, sums, function(*part)), None

    begin = ((jnp.float32(0), jnp.float32(0)), jax.tree.map(jnp.zeros_like, parameters))
    return lax.scan(add, begin, parts)[0]


def gelu(x):
    """x · Φ(x) (Hendrycks and Gimpel, 2016), on a CPU faster than jax.nn.gelu."""
    return x * (0.5 + 0.5 * lax.erf(math.sqrt(0.5) * x))


def normalised(x, epsilon: float):
    """`x` less its mean over the last axis, over its deviation there."""
    x = x - mean(x)
    return x * lax.rsqrt(mean(jnp.square(x)) + epsilon)


def fold_in(key, number):
    """The key that follows from `key`, uint32 [2], and `number`."""
    return jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(key), number))


def attention_by_cudnn(query, key, value, mask, not_padding):
    """Softmax attention to the keys of `mask`, or of `not_padding` without one, by cuDNN."""
    lengths = None if mask is not None else jnp.sum(not_padding, axis=1, dtype=jnp.int32)
    return jax.nn.dot_product_attention(
        query, key, value, mask=mask, key_value_seq_lengths=lengths, implementation="cudnn"
    )


def minus(value, step):
    """The weight `value` less `step`."""
    return value - step


def adam(value, grad, first, second, rate, betas, powers, epsilon: float):
    """A weight and its moments after one update of Adam (Kingma and Ba, 2015); `powers` are those
    of the betas to the number of the update."""
    first = first + (grad - first) * (1 - betas[0])
    second = second + (jnp.square(grad) - second) * (1 - betas[1])
    scale = rate * jnp.sqrt(1 - powers[1]) / (1 - powers[0])
    return value - first * scale / (jnp.sqrt(second) + epsilon), first, second

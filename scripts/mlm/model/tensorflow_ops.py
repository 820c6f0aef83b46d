"""The operations of network, loss and optimizers in TensorFlow; `mlm.model.jax_ops` documents them.

A pass over memory costs a CPU more than its arithmetic: XLA compiles what is elementwise (`fused`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from mlm.foundations.tensorflow_setup import in_one_pass, tf

# There is no loop over blocks of predictions or of queries.
scans_blocks, map_blocks = False, None
left_out = tf.float32.min
float32, uint32 = partial(tf.constant, dtype=tf.float32), partial(tf.constant, dtype=tf.uint32)
arange, bitwise_xor, concatenate, log = tf.range, tf.bitwise.bitwise_xor, tf.concat, tf.math.log
max, power, sum = tf.reduce_max, tf.pow, tf.reduce_sum
fused = in_one_pass


def __getattr__(name: str) -> Any:
    """Return the operation of TensorFlow that has NumPy's name, for those that are not here."""
    return getattr(tf, name)


def mean(x):
    return tf.reduce_mean(x, axis=-1, keepdims=True)


def dot(x, y):
    return tf.reduce_sum(x * y)


def swapaxes(x, one: int, other: int):
    axes = list(range(len(x.shape)))
    axes[one], axes[other] = axes[other], axes[one]
    return tf.transpose(x, axes)


def cummax(x):
    step = 1
    while step < x.shape[1]:
        x = tf.maximum(x, tf.pad(x[:, :-step], [(0, 0), (step, 0)], constant_values=x.dtype.min))
        step *= 2
    return x


def right_shift(x, bits: int):
    return tf.bitwise.right_shift(x, tf.constant(bits, x.dtype))


def rows_at(table, ids):
    return tf.gather(table, ids)


def rows_added(table, ids, rows):
    return tf.tensor_scatter_nd_add(table, ids[:, None], rows)


def rows_summed(count: int, ids, rows, more_ids, more_rows):
    rows, ids = tf.concat([rows, more_rows], 0), tf.concat([ids, more_ids], 0)
    return tf.math.unsorted_segment_sum(rows, ids, count)


def positions_of(x, positions):
    x = tf.broadcast_to(x, (positions.shape[0], *x.shape[1:]))
    return tf.gather(x, positions, batch_dims=1)


def places(shape):
    return tf.reshape(tf.cast(tf.range(math.prod(shape)), tf.uint32), shape)


def product(x, y, x_transposed: bool = False, y_transposed: bool = False):
    if len(x.shape) == 1:
        return tf.cast(tf.linalg.matvec(y, x, transpose_a=True), tf.float32)
    return tf.cast(tf.matmul(x, y, transpose_a=x_transposed, transpose_b=y_transposed), tf.float32)


def dense(x, weight, bias):
    y = tf.matmul(tf.reshape(x, (-1, x.shape[-1])), weight, transpose_b=True)
    y = y if bias is None else tf.nn.bias_add(y, bias)
    return tf.reshape(y, (*x.shape[:-1], weight.shape[0]))


def attention_shares(query, key, mask):
    query = swapaxes(query * tf.cast(1 / math.sqrt(query.shape[-1]), query.dtype), 1, 2)
    scores = tf.cast(tf.matmul(query, swapaxes(key, 1, 2), transpose_b=True), tf.float32)
    return tf.nn.softmax(scores + tf.where(mask, 0.0, -1e9))


def attention_output(shares, value):
    return swapaxes(tf.matmul(shares, swapaxes(value, 1, 2)), 1, 2)


def exponentials(logits, label_logits):
    probabilities = tf.nn.softmax(logits)
    # The largest probability is at least 1 / classes: its logarithm loses nothing.
    sums = max(logits, axis=1) - log(max(probabilities, axis=1))
    totals = 1 + tf.exp(label_logits - sums)
    return probabilities, tf.ones_like(sums), totals, tf.math.softplus(sums - label_logits)


def rematerialised(function: Callable, in_loop: bool = False) -> Callable:
    def called(*arguments):
        leaves = tf.nest.flatten(arguments)
        places = [i for i, x in enumerate(leaves) if x is not None and x.dtype.is_floating]

        def at(*numbers):
            changed = dict(zip(places, numbers, strict=True))
            merged = [changed.get(i, x) for i, x in enumerate(leaves)]
            return function(*tf.nest.pack_sequence_as(arguments, merged))

        return tf.recompute_grad(at)(*(leaves[i] for i in places))

    return called


def with_gradients(value: Callable, forward: Callable) -> Callable:
    @tf.custom_gradient
    def function(*arguments):
        outputs, gradients = forward(*arguments)

        def backward(grad_output, *_):
            return [None if g is None else g * grad_output for g in gradients]

        return outputs, backward

    return function


def scan(function: Callable, carry, parts):
    """Unrolled: there is one part."""
    outputs = []
    for index in range(parts[0].shape[0]):
        carry, output = function(carry, tuple(x[index] for x in parts))
        outputs.append(output)
    return carry, None if outputs[0] is None else [tf.stack(x) for x in zip(*outputs, strict=True)]


def value_and_grad(function: Callable, parameters: dict):
    parameters = {name: tf.convert_to_tensor(value) for name, value in parameters.items()}
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(parameters)
        outputs = function(parameters)
    none = tf.UnconnectedGradients.ZERO
    gradients = tape.gradient(outputs[0], parameters, unconnected_gradients=none)
    return outputs, {name: tf.convert_to_tensor(g) for name, g in gradients.items()}


def sum_in_turn(function: Callable, parts: tuple, parameters: dict):
    """By a loop in the graph: only one part's activations are in memory."""
    count = tf.nest.flatten(parts)[0].shape[0]
    nothing = {name: tf.zeros(value.shape) for name, value in parameters.items()}
    zeros = ((tf.zeros([]), tf.zeros([])), nothing)

    def add(index, sums):
        part = tf.nest.map_structure(lambda x: x[index], parts)
        return index + 1, tf.nest.map_structure(tf.add, sums, function(*part))

    start = (tf.constant(0), zeros)
    return tf.while_loop(lambda index, _: index < count, add, start, parallel_iterations=1)[1]


@tf.custom_gradient
def gelu(x):
    """In one pass; a CPU computes it in float32 seven times as fast as in bfloat16."""
    return _gelu(x), lambda grad: _gelu_gradient(x, grad)


@in_one_pass
def _gelu(x):
    return x * (0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * x))


@in_one_pass
def _gelu_gradient(x, grad):
    density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
    return grad * (0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * x) + x * density)


@tf.custom_gradient
def _normalised(x, epsilon):
    y, scale = _norm_forward(x, epsilon)
    return y, lambda grad: (_norm_backward(grad, y, scale), None)


def normalised(x, epsilon: float):
    return _normalised(x, tf.constant(epsilon, tf.float32))


@in_one_pass
def _norm_forward(x, epsilon):
    x = x - mean(x)
    scale = tf.math.rsqrt(mean(tf.square(x)) + epsilon)
    return x * scale, scale


@in_one_pass
def _norm_backward(grad, y, scale):
    return (grad - mean(grad) - y * mean(grad * y)) * scale


def minus(value: tf.Variable, step):
    value.assign_sub(step)
    return value


def adam(value: tf.Variable, grad, first, second, rate, betas, powers, epsilon: float):
    """By TensorFlow's kernel: one pass over each array, not a dozen."""
    tf.raw_ops.ResourceApplyAdam(
        var=value.handle,
        m=first.handle,
        v=second.handle,
        beta1_power=powers[0],
        beta2_power=powers[1],
        lr=rate,
        beta1=betas[0],
        beta2=betas[1],
        epsilon=epsilon,
        grad=grad,
    )
    return value, first, second

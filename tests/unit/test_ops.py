"""Each operation is the same in every framework: its values, and the gradients of these."""

import inspect

import jax
import numpy as np
import pytest
from both_frameworks import FRAMEWORKS, alike, computed, with_gradients

from mlm.model import jax_ops, tensorflow_ops
from mlm.model.network import ops_of
from mlm.samples import random_bits


def numbers(*shape: int, kind: str = "float32") -> np.ndarray:
    random = np.random.default_rng(sum(shape))
    if kind == "float32":
        return random.normal(0, 1, shape).astype(np.float32)
    return random.integers(0, 2**32, shape, np.uint32).astype(kind)


def ids(*shape: int, below: int) -> np.ndarray:
    return np.random.default_rng(below).integers(0, below, shape).astype(np.int32)


X, Y, POSITIVE = numbers(2, 6), numbers(2, 6)[::-1].copy(), np.abs(numbers(2, 6)) + 0.1
WORDS, TABLE, ROWS = numbers(2, 6, kind="uint32"), numbers(7, 3), numbers(2, 3)
SENTENCES, KEYS = numbers(2, 5, 3), np.arange(6) % 4 < 2
MASK = np.arange(2 * 5 * 4).reshape(2, 1, 5, 4) % 3 > 0
RATE, POWER = np.float32(0.1), np.float32(0.9**3)


def plain(name: str, *arguments, **how) -> tuple:
    """The operation `name` of these arguments; arrays of them first."""
    return lambda ops, *arrays: getattr(ops, name)(*arrays, **how), *arguments


def in_turn(ops, x):
    def step(carry, part):
        return carry + part[0], (part[0] * carry, carry)

    total, each = ops.scan(step, ops.zeros((2, 2)), (ops.reshape(x, (3, 2, 2)),))
    return total, *each


def gradient(ops, x):
    def loss(given):
        return ops.total(ops.sin(given["x"])), ops.cos(given["x"])

    return ops.value_and_grad(loss, {"x": x, "unused": ops.ones((2,))})


def sums(ops, x):
    def share(part):
        def loss(given):
            return ops.total(ops.square(part * given["w"])), ops.total(part)

        return ops.value_and_grad(loss, {"w": ops.ones((2,))})

    return ops.sum_in_turn(share, (ops.reshape(x, (3, 2, 2)),), {"w": ops.ones((2,))})


def proportions(ops, logits, label_logits):
    numbers, others, totals, losses = ops.exponentials(logits, label_logits)
    return numbers / totals[:, None], others / totals, losses


def adam(ops, *given):
    value, *more, rate, power = given
    if ops.framework == "tensorflow":
        value, grad, *moments = (tensorflow_ops.tf.Variable(x) for x in (value, *more))
        more = [grad.read_value(), *moments]
    betas, powers = (0.9, 0.98), (power, power * power)
    return [x * 1.0 for x in ops.adam(value, *more, rate, betas, powers, 1e-3)]


def less(ops, x, y):
    value = tensorflow_ops.tf.Variable(x) if ops.framework == "tensorflow" else x
    return ops.less(value, y) * 1.0


def given_gradients(ops, x, y):
    """A function whose gradients are not those of its value."""
    function = ops.with_gradients(
        lambda x, y: (ops.total(x * y), ops.total(x)),
        lambda x, y: ((ops.total(x * y), ops.total(x)), (5 * y, None)),
    )
    return function(x, y)[0] * 3


#: What is asked of each operation, by its name, and of which arrays.
ASKED = {
    "absolute": plain("absolute", X),
    "adam": (lambda ops: adam(ops, *map(ops.constant, (X, Y, POSITIVE, POSITIVE, RATE, POWER))),),
    "arange": (lambda ops: ops.arange(3, 9, 2),),
    "attended": plain("attended", numbers(2, 2, 5, 4), numbers(2, 4, 2, 3)),
    "attention_shares": (
        lambda ops, query, key: ops.attention_shares(query, key, ops.constant(MASK)),
        *(numbers(2, 5, 2, 3), numbers(2, 4, 2, 3)),
    ),
    "bitwise_xor": plain("bitwise_xor", WORDS, WORDS[::-1].copy()),
    "broadcast_to": plain("broadcast_to", X[:1], shape=(4, 6)),
    "cast": (lambda ops, x: ops.cast(ops.cast(x, "bfloat16"), "float32"), X),
    "concatenate": (lambda ops, x, y: ops.concatenate([x, y], axis=1), X, Y),
    "constant": (lambda ops: ops.constant(X),),
    "cos": plain("cos", X),
    "cummax": plain("cummax", ids(3, 8, below=50)),
    "cumsum": plain("cumsum", X, axis=1),
    "dense": plain("dense", SENTENCES, numbers(4, 3), numbers(4)),
    "dense without bias": (lambda ops, x, w: ops.dense(x, w, None), SENTENCES, numbers(2, 3)),
    "dot": plain("dot", X[0], Y[0]),
    "dtype_of": (lambda ops, x: ops.cast(x, ops.dtype_of(x)), WORDS),
    "entries_at": plain("entries_at", SENTENCES, ids(2, 5, 2, below=3)),
    "erf": plain("erf", X),
    "exponentials": (proportions, X, Y[:, 0]),
    "exp": plain("exp", X),
    "float32": (lambda ops: ops.float32(0.1),),
    "fused": (lambda ops, x, y: ops.fused(lambda x, y: ops.sin(x) * y)(x, y), X, Y),
    "gelu": plain("gelu", 3 * X),
    "largest": plain("largest", X, axis=1),
    "less": (lambda ops: less(ops, ops.constant(X), ops.constant(Y)),),
    "log": plain("log", POSITIVE),
    "log_softmax": plain("log_softmax", X),
    "matmul": plain("matmul", SENTENCES, numbers(2, 3, 4)),
    "maximum": plain("maximum", X, Y),
    "mean": plain("mean", X),
    "minimum": plain("minimum", X, Y),
    "normalised": plain("normalised", X, epsilon=1e-5),
    "ones": (lambda ops: ops.ones((2, 3)),),
    "ones_like": plain("ones_like", WORDS),
    "pad": (lambda ops, x: ops.pad(x, [(0, 1), (2, 0)]), X),
    "places": (lambda ops: ops.places((3, 4, 5)),),
    "positions_of": plain("positions_of", SENTENCES, ids(2, 4, below=5)),
    "positions_of one row": plain("positions_of", SENTENCES[:1], ids(2, 4, below=5)),
    "power": plain("power", POSITIVE, Y),
    "product": plain("product", X, Y, y_transposed=True),
    "product from the left": plain("product", X, Y, x_transposed=True),
    "product of a vector": plain("product", X[0], numbers(6, 3)),
    "rematerialised": (lambda ops, x: ops.rematerialised(lambda x: ops.sin(ops.exp(x)))(x), X),
    "reshape": plain("reshape", X, shape=(3, 4)),
    "rows_added": plain("rows_added", TABLE, np.array([3, 3], np.int32), ROWS),
    "rows_at": plain("rows_at", TABLE, ids(2, 4, below=7)),
    "rows_summed": (
        lambda ops, ids, rows, more_ids, more: ops.rows_summed(5, ids, rows, more_ids, more),
        *(np.array([4, 1], np.int32), ROWS, np.array([1, 0, 1], np.int32), numbers(3, 3)),
    ),
    "rsqrt": plain("rsqrt", POSITIVE),
    "scan": (in_turn, X),
    "shift_right": (lambda ops, x: ops.shift_right(x, 16), WORDS),
    "sigmoid": plain("sigmoid", X),
    "sign": plain("sign", X),
    "sin": plain("sin", X),
    "split": (lambda ops, x: list(ops.split(x, 3, -1)), X),
    "sqrt": plain("sqrt", POSITIVE),
    "square": plain("square", X),
    "stack": (lambda ops, x, y: ops.stack([x, y]), X, Y),
    "sum_in_turn": (sums, X),
    "swapaxes": (lambda ops, x: ops.swapaxes(x, 0, 2), SENTENCES),
    "tanh": plain("tanh", X),
    "total": plain("total", X, axis=1),
    "transpose": plain("transpose", X),
    "uint32": (lambda ops: ops.uint32(0x846CA68B),),
    "value_and_grad": (gradient, X),
    "where": (lambda ops, x, y: ops.where(ops.constant(KEYS), x, y), X, Y),
    "with_gradients": (given_gradients, X, Y),
    "zeros": (lambda ops: ops.zeros((2, 3)),),
    "zeros_like": plain("zeros_like", WORDS),
}
OPERATIONS, IN_TENSORFLOW = (
    {name for name, value in vars(ops).items() if callable(value) and name[0] != "_"}
    - {"Callable", "in_one_pass"}
    for ops in (jax_ops, tensorflow_ops)
)


def test_every_operation_of_both_frameworks_is_asked():
    assert {name.split(" ")[0] for name in ASKED} == OPERATIONS & IN_TENSORFLOW
    # The network asks for these only where a framework has them.
    assert {"attention_by_cudnn", "fold_in", "map_blocks"} == OPERATIONS - IN_TENSORFLOW
    for name in OPERATIONS & IN_TENSORFLOW:
        one, other = getattr(jax_ops, name), getattr(tensorflow_ops, name)
        if one.__module__ == jax_ops.__name__ and other.__module__ == tensorflow_ops.__name__:
            assert [*inspect.signature(one).parameters] == [*inspect.signature(other).parameters]


@pytest.mark.parametrize("name", ASKED)
def test_an_operation_gives_the_same_in_every_framework(name):
    function, *arrays = ASKED[name]
    differentiable = {str(i): x for i, x in enumerate(arrays) if x.dtype == np.float32}
    found = []
    for framework in FRAMEWORKS:
        ops = ops_of(framework)

        def values(changed, ops=ops):
            return function(
                ops, *[changed.get(str(i), ops.constant(x)) for i, x in enumerate(arrays)]
            )

        def loss(changed, ops=ops, values=values):
            outputs = jax.tree.leaves(values(changed))
            floats = [ops.total(ops.sin(x)) for x in outputs if "float32" in str(x.dtype)]
            return sum(floats, ops.zeros(())), outputs

        if differentiable:
            found.append(with_gradients(framework, loss, differentiable))
        else:
            found.append(computed(framework, values, {}))
    alike(*found, atol=2e-6, rtol=1e-5)


def test_keys_follow_from_each_other_on_the_host_as_on_the_device():
    theirs, ours = jax.random.key(2**31 + 7), random_bits.key_of(2**31 + 7)
    for number in (0, 5, 2**32 - 1):
        folded = jax_ops.fold_in(ours[0], number)
        theirs = jax.random.fold_in(theirs, number)
        ours = random_bits.fold_in(ours, np.array([number]))
        assert (ours[0] == jax.random.key_data(theirs)).all() and (ours[0] == folded).all()

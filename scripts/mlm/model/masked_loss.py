"""The loss of masked positions without logits or gradients as large as predictions × vocabulary.

A training step may sum over a sample of the classes, weighted so that it estimates the sum over
the vocabulary (Bengio and Senécal, 2008; Jean et al., "On Using Very Large Target Vocabulary",
2015, arXiv 1412.2007). A trained vocabulary is ordered by frequency: its ids are cut into strata,
of one id each for the smallest, then growing in proportion to the id. Each step draws one class of
each stratum, which counts as often as the stratum has ids. The label is always added.
"""

from bisect import bisect_right

import numpy as np

from mlm.samples.masking import FIXED_EPOCH
from mlm.samples.random_bits import below, threefry

#: The epoch in the key of the drawn classes: one that no training and no evaluation uses.
_EPOCH = FIXED_EPOCH - 1
#: Size of a block's logits, relative to the table's gradient. Each block reads and writes that
#: gradient: smaller blocks take longer, larger ones more memory.
_LOGITS_OVER_TABLE = 2


def strata(vocabulary: int, classes: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return first id (int32) and number of ids (float32) of at most `classes` strata, ascending,
    that divide all ids of the `vocabulary`; without `classes`, one stratum per id."""
    if classes is None or classes >= vocabulary:
        starts = list(range(vocabulary))
    else:
        # More single ids, `n`, make more strata: the largest `n` with at most `classes` of them.
        n = bisect_right(range(1, classes), classes, key=lambda n: len(_starts(vocabulary, n)))
        starts = _starts(vocabulary, max(n, 1))
    return np.array(starts, np.int32), np.diff(np.array([*starts, vocabulary])).astype(np.float32)


def drawn_classes(seed: int, step: int, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Draw one class of each stratum, int32 [classes], as a function of (seed, step) alone."""
    key = (np.array([seed], np.uint32), np.array([_EPOCH], np.uint32))
    stratum = np.arange(len(starts), dtype=np.uint32)
    bits, _ = threefry(key, (np.array([step], np.uint32), stratum))
    return starts + below(bits, sizes.astype(np.uint32)).astype(np.int32)


def _starts(vocabulary: int, single: int) -> list[int]:
    starts = [0]
    while (following := starts[-1] + max(1, starts[-1] // single)) < vocabulary:
        starts.append(following)
    return starts


def masked_cross_entropy(ops, states, table, bias, labels, weights, dtype="float32", drawn=None):
    """Weighted sums of cross-entropy in nats and of right answers, of states · tableᵀ + bias.

    `states` [predictions, width], `table` [vocabulary, width] and `bias` [vocabulary] are those of
    `Network.projection`; `labels` int32 and `weights` float32 are [predictions]. The softmax is
    over the label and all other classes, or those of `drawn`: ids int32 [classes], and how often
    each counts, float32 [classes]. An answer is right if none of these is likelier than the label.
    Both sums are float32; products are in `dtype`.

    Logits and their part of the gradient are computed together, for a block of predictions at a
    time in JAX (Hsu et al., "Liger kernel", 2024, arXiv 2410.10989), and of all in TensorFlow,
    where drawn classes are few. In JAX, this is called inside `jax.shard_map` only.
    """

    def value(states, table, bias, labels, weights, *drawn):
        def add(sums, block):
            _, _, _, losses, right = _answers(ops, block, head)
            return (sums[0] + ops.dot(losses, block[2]), sums[1] + ops.dot(right, block[2])), None

        head = _head(ops, table, bias, dtype, drawn)
        begin = ops.zeros(()), ops.zeros(())
        return ops.scan(add, begin, _blocks(ops, states, labels, weights))[0]

    def forward(states, table, bias, labels, weights, *drawn):
        return _with_gradients(ops, states, table, bias, labels, weights, dtype, drawn)

    return ops.with_gradients(value, forward)(states, table, bias, labels, weights, *(drawn or ()))


def _head(ops, table, bias, dtype, drawn):
    """Return, for the classes `drawn` or all: rows [classes, width] in `dtype`, biases, ids and
    logarithms of how often each counts, [classes]; then rows and biases of the vocabulary."""
    table, vocabulary = ops.cast(table, dtype), table.shape[0]
    if not drawn:
        ids, log_counts = ops.arange(vocabulary), ops.zeros((vocabulary,))
        return table, bias, ids, log_counts, table, bias
    classes, counts = drawn
    rows, biases = ops.rows_at(table, classes), ops.rows_at(bias, classes)
    return rows, biases, classes, ops.log(counts), table, bias


def _with_gradients(ops, states, table, bias, labels, weights, dtype, drawn):
    """Return the sums, and the gradients of the first by states, table and bias."""

    def add(sums, block):
        block_states, block_labels, share = block
        exponentials, negatives, totals, losses, right = _answers(ops, block, head)
        exponentials, scale = ops.cast(exponentials, dtype), share / totals
        grad_labels = scale * negatives
        grad_states = ops.product(exponentials, rows) * scale[:, None]
        label_rows = ops.cast(ops.rows_at(every_row, block_labels), "float32")
        grad_states -= label_rows * grad_labels[:, None]
        # Transposed: a CPU transposes the smaller factor faster than the larger one.
        scaled = ops.cast(block_states * scale[:, None], dtype)
        grad_table = ops.product(scaled, exponentials, x_transposed=True)
        grad_bias = ops.product(ops.cast(scale, dtype), exponentials)
        added = ops.dot(losses, share), ops.dot(right, share), grad_table, grad_bias
        return tuple(a + b for a, b in zip(sums, added, strict=True)), (grad_states, grad_labels)

    head = rows, _, classes, _, every_row, _ = _head(ops, table, bias, dtype, drawn)
    sums = tuple(ops.zeros(shape) for shape in ((), (), rows.shape[::-1], classes.shape))
    sums, each = ops.scan(add, sums, _blocks(ops, states, labels, weights))
    count = labels.shape[0]
    grad_states, grad_labels = (ops.reshape(x, (-1, *x.shape[2:]))[:count] for x in each)
    loss, answers, grad_table, grad_bias = sums
    grad_table = ops.transpose(grad_table)
    label_states = -ops.cast(states, "float32") * grad_labels[:, None]
    if drawn:
        vocabulary = table.shape[0]
        grad_table = ops.rows_summed(vocabulary, classes, grad_table, labels, label_states)
        grad_bias = ops.rows_summed(vocabulary, classes, grad_bias, labels, -grad_labels)
    else:
        grad_table = ops.rows_added(grad_table, labels, label_states)
        grad_bias = ops.rows_added(grad_bias, labels, -grad_labels)
    gradients = grad_states, grad_table, grad_bias, None, None, *[None] * len(drawn)
    return (loss, answers), gradients


def _answers(ops, block, head):
    """Return exponentials [predictions, classes], 0 for the label, up to a factor per prediction;
    and [predictions]: their sums without and with the label's, losses, right answers."""
    (states, labels, _), (rows, bias, classes, log_counts, every_row, every_bias) = block, head
    states = ops.cast(states, rows.dtype)
    label_rows = ops.cast(ops.rows_at(every_row, labels), "float32")
    label_logits = ops.sum(ops.cast(states, "float32") * label_rows, axis=1)
    label_logits += ops.rows_at(every_bias, labels)
    logits = ops.product(states, rows, y_transposed=True) + bias
    logits = ops.where(classes == labels[:, None], ops.left_out, logits)
    right = ops.cast(label_logits >= ops.max(logits, axis=1), "float32")
    return *ops.exponentials(logits + log_counts, label_logits), right


def _blocks(ops, states, labels, weights):
    """Return the three as [blocks, predictions, ...]; rows that fill up a block have weight 0."""
    count, width = states.shape
    blocks = -(-count // (_LOGITS_OVER_TABLE * width)) if ops.scans_blocks else 1
    size = -(-count // blocks)

    def divided(x):
        more = [(0, blocks * size - count), *[(0, 0)] * (len(x.shape) - 1)]
        return ops.reshape(ops.pad(x, more), (blocks, size, *x.shape[1:]))

    return divided(states), divided(labels), divided(weights)

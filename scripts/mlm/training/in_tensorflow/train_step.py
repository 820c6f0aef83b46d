"""One update of the weights, and one look at the validation split: what the device runs."""

from mlm.config.optimizers import Optimizer
from mlm.foundations.tensorflow_setup import tf
from mlm.training.in_tensorflow.optimizers import clipped
from mlm.training.in_tensorflow.prediction import masked_logits, masked_projection, traceable


@tf.custom_gradient
def projected_cross_entropy(states, table, bias, labels):
    """Cross-entropy in nats and whether it is right, both [samples], of states · tableᵀ + bias;
    `states` are [samples, width], `table` [classes, width], `labels` [samples]. The gradient of the
    logits is never made: of each product with it, the part with the labels is a choice of rows."""
    rows = tf.cast(table, states.dtype)
    logits = tf.cast(tf.matmul(states, rows, transpose_b=True), tf.float32) + bias
    probabilities = tf.nn.softmax(logits)
    known = tf.gather(logits, labels, batch_dims=1)
    highest = tf.reduce_max(logits, axis=-1)
    # The largest probability is at least 1 / classes: its logarithm loses nothing.
    loss = highest - known - tf.math.log(tf.reduce_max(probabilities, axis=-1))

    def gradient(of_loss, _of_right):
        softmax = tf.cast(probabilities, states.dtype)
        scale = tf.cast(of_loss, states.dtype)[:, tf.newaxis]
        scaled = states * scale
        of_states = (tf.matmul(softmax, rows) - tf.gather(rows, labels)) * scale
        of_table = tf.cast(tf.matmul(softmax, scaled, transpose_a=True), table.dtype)
        of_bias = tf.cast(tf.matmul(scale, softmax, transpose_a=True)[0], bias.dtype)
        classes = table.shape[0]
        chosen = tf.math.unsorted_segment_sum(tf.cast(scaled, table.dtype), labels, classes)
        asked = tf.math.unsorted_segment_sum(of_loss, labels, classes)
        return of_states, of_table - chosen, of_bias - asked, None

    return (loss, known == highest), gradient


def weighted_sums(model, batch: dict, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Weighted sums over a batch, float32: cross-entropy in nats, and correct predictions."""
    labels, weights = (tf.reshape(batch[name], [-1]) for name in ("labels", "weights"))
    projection = masked_projection(model, batch, training)
    if projection is None:
        logits = masked_logits(model, batch, training)
        logits = tf.reshape(logits, [-1, logits.shape[-1]])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.gather(logits, labels, batch_dims=1) == tf.reduce_max(logits, axis=-1)
    else:
        states, table, bias = map(tf.convert_to_tensor, projection)
        states = tf.reshape(states, [-1, states.shape[-1]])
        loss, right = projected_cross_entropy(states, table, bias, labels)
    return tf.reduce_sum(loss * weights), tf.reduce_sum(tf.where(right, weights, 0.0))


def replica_train_step(model, optimizer, settings: Optimizer, lanes: int = 1):
    """The function of a replica's share of a batch, in `lanes` equal parts at the same time: it
    updates the weights once and returns its addends of the batch's loss, accuracy and overflow.
    `weights` are divided by the number of predictions in the global batch."""

    def share_of(part: dict) -> list[tf.Tensor]:
        if lanes == 1:
            return of_lane(part)
        divided = {name: tf.split(value, lanes) for name, value in part.items()}
        shares = [of_lane({k: v[lane] for k, v in divided.items()}) for lane in range(lanes)]
        return [tf.add_n(addends) for addends in zip(*shares, strict=True)]

    def of_lane(part: dict) -> list[tf.Tensor]:
        variables = model.trainable_variables
        with tf.GradientTape() as tape:
            loss, right = weighted_sums(model, part, training=True)
        gradients = tape.gradient(loss, variables)
        gradients = [
            tf.zeros_like(v) if g is None else tf.convert_to_tensor(g)
            for g, v in zip(gradients, variables, strict=True)
        ]
        return [*gradients, loss, right]

    def step(batch: dict) -> dict[str, tf.Tensor]:
        variables = model.trainable_variables
        *gradients, loss, right = (
            share_of(batch)
            if settings.gradient_accumulation_steps == 1
            else _accumulated(share_of, batch, variables, settings.gradient_accumulation_steps)
        )
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            gradients = context.all_reduce("sum", gradients)
        gradients = clipped(gradients, settings.max_grad_norm)
        optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        overflow = tf.cast(tf.reduce_sum(batch["overflow"]), tf.float32)
        return {"loss": loss, "accuracy": right, "overflow": overflow}

    return traceable(model, step)


def _accumulated(share_of, batch: dict, variables, count: int) -> list[tf.Tensor]:
    """The sum of `share_of` over `count` equal parts of the batch, in order, by a loop in the
    graph: only one part's activations are in memory."""
    parts = {k: tf.reshape(v, [count, -1, *v.shape[1:]]) for k, v in batch.items()}
    zeros = [*(tf.zeros(v.shape, v.dtype) for v in variables), tf.zeros([]), tf.zeros([])]

    def add(i, sums):
        found = share_of({k: v[i] for k, v in parts.items()})
        return i + 1, [a + b for a, b in zip(sums, found, strict=True)]

    _, sums = tf.while_loop(
        lambda i, sums: i < count, add, (tf.constant(0), zeros), parallel_iterations=1
    )
    return sums


def distributed_train_step(strategy: tf.distribute.Strategy, replica_step):
    """A compiled function of (iterator, n), n a tensor: n steps, and their summed metrics."""

    def total(value):
        return tf.cast(strategy.reduce("SUM", value, axis=None), tf.float64)

    @tf.function
    def run_steps(iterator, n):
        # On the host, and in float64, where a sum of float32 is exact: the same whether many
        # steps are added here or few here and the rest by the caller.
        loss = right = overflow = tf.constant(0.0, tf.float64)
        for _ in tf.range(n):
            found = strategy.run(replica_step, args=(next(iterator),))
            loss += total(found["loss"])
            right += total(found["accuracy"])
            overflow += total(found["overflow"])
        return {"loss": loss, "accuracy": right, "overflow": overflow}

    return run_steps


def replica_validation_step(model):
    """The function of a replica's batch that gives its loss, right answers and predictions."""

    def step(batch: dict) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        loss, right = weighted_sums(model, batch, training=False)
        return loss, right, tf.reduce_sum(batch["weights"])

    return traceable(model, step)


def distributed_validation_step(strategy: tf.distribute.Strategy, model):
    """A compiled function of a batch that returns sums of loss, right answers, predictions."""
    replica_step = replica_validation_step(model)

    @tf.function
    def run(batch):
        found = strategy.run(replica_step, args=(batch,))
        return [strategy.reduce("SUM", value, axis=None) for value in found]

    return run

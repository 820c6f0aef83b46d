"""One update of the weights, and one look at the validation split: what the device runs."""

from mlm.config.optimizers import Optimizer
from mlm.foundations.tensorflow_setup import as_written, tf
from mlm.model.sampled_softmax import strata
from mlm.training.in_tensorflow.optimizers import clipped
from mlm.training.in_tensorflow.prediction import masked_logits, masked_projection


@tf.custom_gradient
def projected_cross_entropy(states, table, bias, labels, classes, counts):
    """Cross-entropy in nats and whether it is right, both [samples], of states · tableᵀ + bias;
    `states` are [samples, width], `table` [vocabulary, width], `labels` [samples]. Beside the label
    the softmax adds up `classes` [n], each `counts` [n] times. The gradient of the logits is never
    made: of each product with it, the part with the labels is a choice of rows."""
    rows, own = (tf.cast(tf.gather(table, ids), states.dtype) for ids in (classes, labels))
    asked = tf.cast(states, tf.float32) * tf.cast(own, tf.float32)
    asked = tf.reduce_sum(asked, axis=-1) + tf.gather(bias, labels)
    logits = tf.cast(tf.matmul(states, rows, transpose_b=True), tf.float32)
    logits += tf.gather(bias, classes)
    logits = tf.where(classes == labels[:, tf.newaxis], logits.dtype.min, logits)
    probabilities = tf.nn.softmax(logits)
    highest, sums = tf.reduce_max(logits, axis=-1), tf.linalg.matvec(probabilities, counts)
    # The largest probability is at least 1 / classes: its logarithm loses nothing.
    others = highest + tf.math.log(sums / tf.reduce_max(probabilities, axis=-1))

    def gradient(of_loss, _of_right):
        softmax, pulls = tf.cast(probabilities, states.dtype), of_loss * tf.sigmoid(others - asked)
        pull, scale = (tf.cast(x, states.dtype)[:, tf.newaxis] for x in (pulls, pulls / sums))
        weights = tf.cast(counts, states.dtype)[:, tf.newaxis]
        of_states = tf.matmul(softmax, rows * weights) * scale - own * pull
        of_rows = tf.matmul(softmax, states * scale, transpose_a=True) * weights
        of_bias = tf.matmul(softmax, scale, transpose_a=True) * weights
        chosen = tf.cast(states, table.dtype) * pulls[:, tf.newaxis]

        def summed(of_classes, of_labels):
            addends = tf.concat([tf.cast(of_classes, table.dtype), -of_labels], axis=0)
            ids = tf.concat([classes, labels], axis=0)
            return tf.math.unsorted_segment_sum(addends, ids, table.shape[0])

        return of_states, summed(of_rows, chosen), summed(of_bias[:, 0], pulls), None, None, None

    return (tf.math.softplus(others - asked), asked >= highest), gradient


def weighted_sums(model, batch: dict, training: bool, drawn=None) -> tuple[tf.Tensor, tf.Tensor]:
    """Weighted sums over a batch, float32: cross-entropy in nats, and correct predictions; of all
    classes, or of those `drawn` and their counts."""
    labels, weights = (tf.reshape(batch[name], [-1]) for name in ("labels", "weights"))
    if drawn is None:
        logits = masked_logits(model, batch, training)
        logits = tf.reshape(logits, [-1, logits.shape[-1]])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.gather(logits, labels, batch_dims=1) == tf.reduce_max(logits, axis=-1)
    else:
        projection = masked_projection(model, batch, training)
        states, table, bias = map(tf.convert_to_tensor, projection)
        states = tf.reshape(states, [-1, states.shape[-1]])
        loss, right = projected_cross_entropy(states, table, bias, labels, *drawn)
    return tf.reduce_sum(loss * weights), tf.reduce_sum(tf.where(right, weights, 0.0))


def replica_train_step(
    model,
    optimizer,
    settings: Optimizer,
    lanes: int = 1,
    softmax_classes: int | None = None,
    seed: int = 0,
):
    """The function of a replica's share of a batch, in `lanes` equal parts at the same time: it
    updates the weights once and returns its addends of the batch's mean loss, accuracy, predictions
    and overflow. `weights` are divided by the number of predictions in the global batch. Classes of
    the softmax are drawn by `seed` and the step."""
    starts, sizes = strata(model.config.vocab_size, softmax_classes)

    def share_of(part: dict, drawn) -> list[tf.Tensor]:
        if lanes == 1:
            return of_lane(part, drawn)
        divided = {name: tf.split(value, lanes) for name, value in part.items()}
        shares = [of_lane({k: v[lane] for k, v in divided.items()}, drawn) for lane in range(lanes)]
        return [tf.add_n(addends) for addends in zip(*shares, strict=True)]

    def of_lane(part: dict, drawn) -> list[tf.Tensor]:
        variables = model.trainable_variables
        with tf.GradientTape() as tape:
            loss, right = weighted_sums(model, part, training=True, drawn=drawn)
        gradients = tape.gradient(loss, variables)
        gradients = [
            tf.zeros_like(v) if g is None else tf.convert_to_tensor(g)
            for g, v in zip(gradients, variables, strict=True)
        ]
        return [*gradients, loss, right]

    @as_written
    def step(batch: dict) -> dict[str, tf.Tensor]:
        variables, parts = model.trainable_variables, settings.gradient_accumulation_steps
        places = tf.random.stateless_uniform(sizes.shape, tf.stack([seed, optimizer.iterations]))
        drawn = starts + tf.cast(places * sizes, tf.int32), sizes
        *gradients, loss, right = (
            share_of(batch, drawn)
            if parts == 1
            else _accumulated(lambda part: share_of(part, drawn), batch, variables, parts)
        )
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            gradients = context.all_reduce("sum", gradients)
        gradients = clipped(gradients, settings.max_grad_norm)
        optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        overflow = tf.cast(tf.reduce_sum(batch["overflow"]), tf.float32)
        predictions = tf.cast(tf.math.count_nonzero(batch["weights"]), tf.float32)
        names = ("loss", "accuracy", "predictions", "overflow")
        return dict(zip(names, (loss, right, predictions, overflow), strict=True))

    return step


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
    """A compiled function of (iterator, n), n a tensor: n steps, and their sums over predictions of
    loss and right answers, of predictions and overflow."""

    def total(value):
        return strategy.reduce("SUM", value, axis=None)

    @tf.function
    def run_steps(iterator, n):
        # On the host, and in float64, where a sum of float32 is exact: the same whether many
        # steps are added here or few here and the rest by the caller.
        sums = tf.zeros([4], tf.float64)
        for _ in tf.range(n):
            measured = strategy.run(replica_step, args=(next(iterator),))
            predictions = total(measured["predictions"])
            loss, right = (total(measured[name]) * predictions for name in ("loss", "accuracy"))
            sums += tf.cast([loss, right, predictions, total(measured["overflow"])], tf.float64)
        names = ("loss", "accuracy", "predictions", "overflow")
        return dict(zip(names, tf.unstack(sums), strict=True))

    return run_steps


def replica_validation_step(model):
    """The function of a replica's batch that gives its loss, right answers and predictions."""

    @as_written
    def step(batch: dict) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        loss, right = weighted_sums(model, batch, training=False)
        return loss, right, tf.reduce_sum(batch["weights"])

    return step


def distributed_validation_step(strategy: tf.distribute.Strategy, model):
    """A compiled function of a batch that returns sums of loss, right answers, predictions."""
    replica_step = replica_validation_step(model)

    @tf.function
    def run(batch):
        found = strategy.run(replica_step, args=(batch,))
        return [strategy.reduce("SUM", value, axis=None) for value in found]

    return run

"""One update of the weights, and one look at the validation split: what the device runs."""

from mlm.foundations.framework import tf
from mlm.pretraining.optimisation import OptimizerSettings
from mlm.pretraining.prediction import masked_logits, traceable


@tf.custom_gradient
def cross_entropy(logits: tf.Tensor, labels: tf.Tensor):
    """Cross-entropy in nats and the likeliest class, both [samples], of [samples, classes].

    With the softmax kept, the loss needs one more look at the logits, at their maximum, and the
    gradient is the softmax less the labels. Under deterministic kernels TensorFlow's own function
    passes over the logits twice as often, and scatters the gradient.
    """
    probabilities = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    highest, asked = (tf.gather(logits, places, batch_dims=1) for places in (best, labels))
    # The largest probability is at least 1 / classes: its logarithm loses nothing.
    loss = highest - asked - tf.math.log(tf.gather(probabilities, best, batch_dims=1))

    def gradient(of_loss, _of_best):
        known = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        return (probabilities - known) * of_loss[:, tf.newaxis], None

    return (loss, best), gradient


def masked_cross_entropy(logits: tf.Tensor, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Weighted sums over a batch: cross-entropy in nats, and correct predictions.

    `logits` is [batch, slots, vocabulary]; `batch` holds `labels` and `weights`
    [batch, slots]. Both results are float32 scalars.
    """
    labels, weights = (tf.reshape(batch[name], [-1]) for name in ("labels", "weights"))
    loss, best = cross_entropy(tf.reshape(logits, [-1, logits.shape[-1]]), labels)
    right = tf.cast(best == labels, tf.float32)
    return tf.reduce_sum(loss * weights), tf.reduce_sum(right * weights)


def replica_train_step(model, optimizer, settings: OptimizerSettings):
    """The function that every replica runs on its share of a batch.

    It takes a batch of [per-replica batch × accumulation, …] tensors whose weights are
    divided by the number of predictions in the global batch, updates the weights once, and
    returns the replica's addends of the batch's loss, accuracy and overflow.
    """

    def share_of(part: dict) -> list[tf.Tensor]:
        """The gradients of every variable, the loss, and the right answers."""
        variables = model.trainable_variables
        with tf.GradientTape() as tape:
            logits = masked_logits(model, part, training=True)
            loss, right = masked_cross_entropy(logits, part)
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
        if settings.max_grad_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, settings.max_grad_norm)
        optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        overflow = tf.cast(tf.reduce_sum(batch["overflow"]), tf.float32)
        return {"loss": loss, "accuracy": right, "overflow": overflow}

    return traceable(model, step)


def _accumulated(share_of, batch: dict, variables, count: int) -> list[tf.Tensor]:
    """The sum of `share_of` over `count` equal parts of the batch, in their order.

    A loop in the graph, of a count that XLA knows: it is traced and compiled once, and only one
    part's activations are in memory, however many parts there are.
    """
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
    """A compiled function of (iterator, n) that runs n steps and returns their summed metrics.

    n is a tensor, so that any number of steps runs in the one traced function.
    """

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
        loss, right = masked_cross_entropy(masked_logits(model, batch, training=False), batch)
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

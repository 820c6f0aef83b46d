"""One update of the weights as a replica of a distribution strategy makes it."""

from collections.abc import Callable

from mlm.config.pretraining import Optimizer
from mlm.foundations.tensorflow_setup import tf
from mlm.model.network import DropoutKeys
from mlm.training.train_step import OfEachStep, train_step


def replica_train_step(
    beside: OfEachStep, settings: Optimizer, lanes: int = 1
) -> Callable[[dict, dict], tuple[dict, tuple]]:
    """The function (state, batch) -> (state, sums) of a replica's share of a batch, computed in
    `lanes` equal parts at the same time; sums are its addends of the batch's mean loss and right
    predictions, and the number of its predictions and of those without a slot."""
    update = train_step(beside.computation, settings, _over_replicas, _in_lanes(lanes))

    def step(state: dict, batch: dict) -> tuple[dict, tuple]:
        batch = dict(batch)
        taken = beside.taken(batch)
        overflow = tf.cast(tf.reduce_sum(batch.pop("overflow")), tf.float32)
        predictions = tf.cast(tf.math.count_nonzero(batch["weights"]), tf.float32)
        state, loss, right = update(state, batch, *taken)
        return state, (loss, right, predictions, overflow)

    return step


def _over_replicas(addends: tuple) -> tuple:
    """Gradients added up over the replicas; sums as they are, which the strategy adds up."""
    sums, gradients = addends
    context = tf.distribute.get_replica_context()
    if context is not None and context.num_replicas_in_sync > 1:
        gradients = context.all_reduce("sum", gradients)
    return sums, gradients


def _in_lanes(count: int) -> Callable:
    def shares(share: Callable) -> Callable:
        def divided(part: dict, keys: DropoutKeys | None = None):
            rows = part["input_ids"].shape[0]
            # A phase may have batches that so many do not divide.
            equal = max(n for n in range(1, count + 1) if rows % n == 0)
            parts = {name: tf.split(value, equal) for name, value in part.items()}
            lanes = [{name: x[lane] for name, x in parts.items()} for lane in range(equal)]
            found = [share(batch, keys, lane) for lane, batch in enumerate(lanes)]
            return tf.nest.map_structure(lambda *addends: tf.add_n(addends), *found)

        return share if count == 1 else divided

    return shares

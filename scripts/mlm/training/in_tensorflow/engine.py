"""The engine of a run in TensorFlow: variables and steps on a distribution strategy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mlm.config.pretraining import Optimizer
from mlm.foundations.tensorflow_setup import tf
from mlm.model.network import DropoutKeys
from mlm.samples.masking import VALIDATION_SEED, mask_batch
from mlm.training.devices import Devices
from mlm.training.engine import RunEngine, flat, nested
from mlm.training.length_and_phases import TrainingPhase
from mlm.training.resolved_run import Run
from mlm.training.train_step import RandomInputs, train_step


class TensorFlowEngine(RunEngine):
    """The engine of a run of pretraining in TensorFlow; samples are masked on the host."""

    def __init__(self, run: Run, devices: Devices):
        if run.optimizer.gradient_accumulation_steps > 1:
            # This optimization of graphs rewrites the sum of a large gradient, in the loop over
            # the parts, into temporary variables, two of which may have one name:
            # AlreadyExistsError, from a width of 512 on.
            tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        self._strategy, self._variables = devices.strategy, {}
        super().__init__(run, devices)
        lanes = devices.arithmetic["lanes"]
        self._replica_step = replica_train_step(self._random, run.optimizer, lanes)
        self._updates = [self._advanced] * len(run.phases)

    def _put(self, arrays: dict[str, np.ndarray] | None) -> None:
        arrays = arrays or {}  # never None: TensorFlow trains in one process
        if not self._variables:
            # Each replica updates its copy, by the same gradients: the copies stay equal.
            how = {}
            if self._strategy.num_replicas_in_sync > 1:
                how["synchronization"] = tf.VariableSynchronization.ON_READ
                how["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
            with self._strategy.scope():
                self._variables = {
                    name: tf.Variable(tf.convert_to_tensor(array), trainable=False, **how)
                    for name, array in arrays.items()
                }
            return
        for name, variable in self._variables.items():
            variable.assign(arrays[name])

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(variable.numpy()) for name, variable in self._variables.items()}

    def _placed(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        count = self.devices.replicas
        if count == 1:
            return {name: tf.constant(array) for name, array in batch.items()}
        divide = self._strategy.experimental_distribute_values_from_function
        shares = {name: np.split(array, count) for name, array in batch.items()}
        return {
            name: divide(
                lambda context, parts=parts: tf.constant(parts[context.replica_id_in_sync_group])
            )
            for name, parts in shares.items()
        }

    @tf.function(autograph=False)
    def _advanced(self, batch: dict) -> dict:
        """Make one update; return what it measures, added up over the replicas."""
        return self._totals(self._strategy.run(self._step, args=(batch,)))

    def _totals(self, addends: Any) -> Any:
        return tf.nest.map_structure(
            lambda value: self._strategy.reduce("SUM", value, axis=None), addends
        )

    def _step(self, batch: dict) -> dict:
        state, measured = self._replica_step(nested(self._variables), batch)
        for name, value in flat(state).items():
            # `ops.adam` and `ops.minus` update variables in place, and return them.
            if value is not self._variables[name]:
                self._variables[name].assign(value)
        return measured

    @tf.function(autograph=False)
    def _validated(self, batch: dict) -> tuple:
        def step(batch: dict) -> tuple:
            parameters = nested(self._variables)["parameters"]
            parameters = {n: tf.convert_to_tensor(v) for n, v in parameters.items()}
            loss, right = self._computation.weighted_sums(parameters, batch)
            return loss, right, tf.reduce_sum(batch["weights"])

        return self._totals(self._strategy.run(step, args=(batch,)))

    def _training_batch(self, phase: TrainingPhase, step: int, stored: dict) -> dict:
        ids, attention, index, epoch = stored.values()
        batch = mask_batch(ids, attention, index, phase.plan, phase.seed, epoch)
        # The sum of the replicas' losses is the mean of the whole batch.
        batch["weights"] /= np.maximum(batch["weights"].sum(), 1)
        return batch | self._random.arrays(step)

    def _validation_batch(self, stored: dict) -> dict:
        ids, attention, index = stored.values()
        plan = self._run.validation_plan
        batch = mask_batch(ids, attention, np.maximum(index, 0), plan, VALIDATION_SEED)
        batch["weights"] *= (index >= 0)[:, None]
        return batch


def replica_train_step(
    random: RandomInputs, settings: Optimizer, lanes: int = 1
) -> Callable[[dict, dict], tuple[dict, dict]]:
    """Return the function (state, batch) -> (state, sums) of a replica's share of a batch, computed
    in `lanes` equal parts at the same time. Sums are the replica's addends of the batch's mean loss
    and share of right predictions, its predictions, and chosen tokens without a slot."""
    update = train_step(random.computation, settings, _over_replicas, _in_lanes(lanes))

    def step(state: dict, batch: dict) -> tuple[dict, dict]:
        batch = dict(batch)
        taken = random.pop_from(batch)
        overflow = tf.cast(tf.reduce_sum(batch.pop("overflow")), tf.float32)
        predictions = tf.cast(tf.math.count_nonzero(batch["weights"]), tf.float32)
        state, loss, right = update(state, batch, *taken)
        sums = {"loss": loss, "accuracy": right, "predictions": predictions, "overflow": overflow}
        return state, sums

    return step


def _over_replicas(addends: tuple) -> tuple:
    """Add up the gradients over the replicas; `_totals` adds up the sums, after the step."""
    sums, gradients = addends
    context = tf.distribute.get_replica_context()
    if context is not None and context.num_replicas_in_sync > 1:
        gradients = context.all_reduce("sum", gradients)
    return sums, gradients


def _in_lanes(count: int) -> Callable:
    # For `divided` of `train_step`: computes a part in `count` lanes at the same time.
    def in_lanes(gradient_of: Callable) -> Callable:
        def divided(part: dict, keys: DropoutKeys | None = None):
            rows = part["input_ids"].shape[0]
            # A phase's batch may not be a multiple of `count`: then fewer lanes.
            equal = max(n for n in range(1, count + 1) if rows % n == 0)
            parts = {name: tf.split(value, equal) for name, value in part.items()}
            lanes = [{name: x[lane] for name, x in parts.items()} for lane in range(equal)]
            sums = [gradient_of(batch, keys, lane) for lane, batch in enumerate(lanes)]
            return tf.nest.map_structure(lambda *addends: tf.add_n(addends), *sums)

        return gradient_of if count == 1 else divided

    return in_lanes

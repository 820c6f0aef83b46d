"""The engine of a run in TensorFlow: variables, batches and steps on a distribution strategy."""

import numpy as np

from mlm.foundations.tensorflow_setup import as_written, tf
from mlm.samples.input_pipeline import (
    reading_in_words,
    replica_shares,
    training_batches,
    validation_batches,
)
from mlm.samples.masking import VALIDATION_SEED
from mlm.training.devices import Devices
from mlm.training.engine import Engine, flat, nested
from mlm.training.in_tensorflow.train_step import replica_train_step
from mlm.training.run import Run, TrainingPhase

_MEASURED = ("loss", "accuracy", "predictions", "overflow")


class TensorFlowEngine(Engine):
    """`mlm.training.engine.Engine` in TensorFlow."""

    def __init__(self, run: Run, devices: Devices):
        self._run, optimizer = run, run.optimizer
        if optimizer.gradient_accumulation_steps > 1:
            # It rewrites the sum of a large gradient in the loop over the parts into temporary
            # variables, two of which may have one name: AlreadyExistsError, from a width of
            # 512 on.
            tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        self._strategy, self._variables = devices.strategy, {}
        super().__init__(run, devices)
        lanes = devices.arithmetic["lanes"]
        self._replica_step = replica_train_step(self._beside, optimizer, lanes)
        self._batches = self._validation_batches = None

    def advance(self, steps: int) -> dict[str, float]:
        phase = self._run.phase_at(self.step)
        if self._batches is None or self.step == phase.first:
            self._batches = iter(self._distributed(lambda: self._training_batches(phase)))
        at_once = min(steps, phase.end - self.step)
        with reading_in_words():
            sums = self._advanced(self._batches, tf.constant(at_once))
        self.step += at_once
        measured = {name: float(value) for name, value in zip(_MEASURED, sums, strict=True)}
        if at_once == steps:
            return measured
        # The next phase has batches of another shape.
        rest = self.advance(steps - at_once)
        return {name: value + rest[name] for name, value in measured.items()}

    def validate(self) -> tuple[float, float]:
        if self._validation_batches is None:
            self._validation_batches = self._distributed(lambda: validation_dataset(self._run))
        sums = np.zeros(3)
        with reading_in_words():
            for batch in self._validation_batches:
                sums += [float(addend) for addend in self._validated(batch)]
        return sums[0] / sums[2], sums[1] / sums[2]

    def weights_are_finite(self) -> bool:
        weights = nested(self._variables)["parameters"].values()
        return all(bool(tf.reduce_all(tf.math.is_finite(w))) for w in weights)

    def _put(self, arrays: dict[str, np.ndarray] | None) -> None:
        arrays = arrays or {}
        if not self._variables:
            # Each replica has a copy of its own, which its own steps update.
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

    @tf.function(autograph=True)
    def _advanced(self, iterator, steps):
        """Sums over `steps` of `_MEASURED`, loss and right answers over predictions."""

        def total(value):
            return self._strategy.reduce("SUM", value, axis=None)

        # On the host, and in float64, where a sum of float32 is exact: the same whether many
        # steps are added here or few here and the rest by the caller.
        sums = tf.zeros([4], tf.float64)
        for _ in tf.range(steps):
            measured = self._strategy.run(self._step, args=(next(iterator),))
            loss, right, predictions, overflow = (total(value) for value in measured)
            loss, right = loss * predictions, right * predictions
            sums += tf.cast([loss, right, predictions, overflow], tf.float64)
        return tf.unstack(sums)

    @as_written
    def _step(self, batch: dict):
        state, measured = self._replica_step(nested(self._variables), batch)
        for name, value in flat(state).items():
            # The others are updated in place.
            if value is not self._variables[name]:
                self._variables[name].assign(value)
        return measured

    @tf.function(autograph=False)
    def _validated(self, batch):
        """Sums of loss, right answers and predictions over a batch."""

        def step(batch):
            parameters = nested(self._variables)["parameters"]
            parameters = {n: tf.convert_to_tensor(v) for n, v in parameters.items()}
            loss, right = self._computation.weighted_sums(parameters, batch)
            return loss, right, tf.reduce_sum(batch["weights"])

        sums = self._strategy.run(step, args=(batch,))
        return [self._strategy.reduce("SUM", value, axis=None) for value in sums]

    def steps_and_batches(self) -> list[tuple]:
        """The step of one replica, and the specification of its batch, in each phase."""
        phases = map(self._training_batches, self._run.phases)
        return [(self._step, batches.element_spec) for batches in phases]

    def _training_batches(self, phase: TrainingPhase) -> tf.data.Dataset:
        order = phase.order_from(self.step)
        return training_batches(phase.train, phase.plan, order, self._beside.arrays)

    def _distributed(self, make_batches):
        """The batches that `make_batches()` gives, divided among the replicas."""
        return self._strategy.distribute_datasets_from_function(
            lambda context: replica_shares(make_batches(), context)
        )


def validation_dataset(run: Run) -> tf.data.Dataset:
    """What a validation pass of `run` looks at: the same samples and masks whatever its seed."""
    return validation_batches(
        run.validation,
        run.validation_plan,
        seed=VALIDATION_SEED,
        batch_size=run.validation_batch_size,
        samples=run.validation_rows,
    )

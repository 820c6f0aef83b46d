"""The engine of a run in TensorFlow: its model, optimizer, batches and steps, on its devices."""

import numpy as np

from mlm.foundations.tensorflow_setup import tf, tf_keras
from mlm.model.cooccurrence import initialise_from_counts
from mlm.model.export import ExportedModel
from mlm.model.sampled_softmax import head_in_words
from mlm.samples.input_pipeline import (
    reading_in_words,
    replica_shares,
    training_batches,
    validation_batches,
)
from mlm.samples.masking import VALIDATION_SEED
from mlm.training.devices import Devices
from mlm.training.in_tensorflow.model import (
    KerasWeights,
    build_model,
    number_of_parameters,
    pytorch_weights,
    set_weights,
    vocabulary_weights,
)
from mlm.training.in_tensorflow.optimizers import build_optimizer
from mlm.training.in_tensorflow.train_step import (
    distributed_train_step,
    distributed_validation_step,
    replica_train_step,
)
from mlm.training.run import Run


def trackable_state(model, optimizer) -> tf.train.Checkpoint:
    """All that the state of a run consists of, with dropout's generators."""
    generators = []
    for layer in model.submodules:
        if isinstance(layer, tf_keras.layers.Dropout):
            generator = getattr(layer._random_generator, "_generator", None)
            if generator is None:
                layer._random_generator._maybe_init()
                generator = layer._random_generator._generator
            if generator is not None:
                generators.append(generator)
    return tf.train.Checkpoint(model=model, optimizer=optimizer, generators=generators)


class Engine:
    """`mlm.training.engine.Engine` in TensorFlow; `model` is the masked language model."""

    def __init__(self, run: Run, devices: Devices):
        optimizer = run.pretraining.optimizer
        if optimizer.gradient_accumulation_steps > 1:
            # It rewrites the sum of a large gradient in the loop over the parts into temporary
            # variables, two of which may have one name: AlreadyExistsError, from a width of
            # 512 on.
            tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        self._run, self._strategy = run, devices.strategy
        with self._strategy.scope():
            self.model = build_model(run.model_config, run.model.initialisation.attention, run.seed)
            self.begun = None
            if run.warm_start is not None:
                fresh, tables = pytorch_weights(self.model), vocabulary_weights(self.model)
                weights, self.begun = run.warm_start.over(fresh, *tables)
                set_weights(self.model, weights)
            built = build_optimizer(optimizer, self.model.trainable_variables)
        self._state = trackable_state(self.model, built)
        self.parameters = number_of_parameters(self.model)
        config, classes = run.model_config, run.pretraining.softmax_classes
        self.head = head_in_words(config.vocab_size, classes)
        self.step = 0
        how = devices.arithmetic["lanes"], classes, run.seed
        step = replica_train_step(self.model, built, optimizer, *how)
        self._train_step = distributed_train_step(self._strategy, step)
        self._validation_step = distributed_validation_step(self._strategy, self.model)
        self._batches = self._validation_batches = None

    def start_from_counts(self) -> None:
        with self._strategy.scope():
            initialise_from_counts(KerasWeights(self.model), self._run, self.begun)

    def advance(self, steps: int) -> dict[str, float]:
        if self._batches is None:
            self._batches = iter(self._distributed(self._training_batches, self._run.batch_size))
        with reading_in_words():
            sums = self._train_step(self._batches, tf.constant(steps))
        self.step += steps
        return {name: float(value) for name, value in sums.items()}

    def validate(self) -> tuple[float, float]:
        if self._validation_batches is None:
            size = self._run.validation_batch_size
            self._validation_batches = self._distributed(
                lambda: validation_dataset(self._run, size), size
            )
        sums = np.zeros(3)
        with reading_in_words():
            for batch in self._validation_batches:
                sums += [float(addend) for addend in self._validation_step(batch)]
        return sums[0] / sums[2], sums[1] / sums[2]

    def weights_are_finite(self) -> bool:
        return all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in self.model.trainable_weights)

    def exported(self) -> ExportedModel:
        return ExportedModel(pytorch_weights(self.model), self._run.model_config)

    def write(self, place: str) -> None:
        self._state.write(f"{place}/variables")

    def read(self, place: str) -> None:
        self._state.read(f"{place}/variables").assert_consumed()

    def _training_batches(self) -> tf.data.Dataset:
        order = self._run.order_from(self.step)
        return training_batches(self._run.train, self._run.plan, order)

    def _distributed(self, make_batches, batch_size: int):
        """The batches of `batch_size` that `make_batches()` gives, divided among the replicas."""
        return self._strategy.distribute_datasets_from_function(
            lambda context: replica_shares(make_batches(), context, batch_size)
        )


def validation_dataset(run: Run, batch_size: int) -> tf.data.Dataset:
    """What a validation pass of `run` looks at: the same samples and masks whatever its seed."""
    return validation_batches(
        run.validation,
        run.validation_plan,
        seed=VALIDATION_SEED,
        batch_size=batch_size,
        samples=run.pretraining.validation.samples,
    )

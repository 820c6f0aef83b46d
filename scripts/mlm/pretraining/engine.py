"""The engine of a run: its model, optimizer, batches and steps, on its devices.

What decides a bit of the weights is here and in the modules that this one uses; when something
is logged, saved or pushed is told in mlm.pretraining.training.
"""

from mlm.batches.input_pipeline import (
    BatchOrder,
    reading_in_words,
    replica_shares,
    training_batches,
)
from mlm.foundations.framework import tf, tf_keras
from mlm.pretraining.accelerators import Accelerator
from mlm.pretraining.cooccurrence import start_from_counts
from mlm.pretraining.initialisation import columns_of_words, positions_apart_from_words
from mlm.pretraining.models import build_model
from mlm.pretraining.optimisation import LearningRate, build_optimizer
from mlm.pretraining.resolved_run import Pretraining, validation_batches
from mlm.pretraining.train_step import (
    distributed_train_step,
    distributed_validation_step,
    replica_train_step,
)


def trackable_state(model, optimizer) -> tf.train.Checkpoint:
    """Everything that a resumed process needs to go on with the same bits.

    The dropout layers' random generators are named one by one: TensorFlow does not find them
    by itself, and without them a resumed training draws other dropouts.
    """
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
    """A run at its start.

    Attributes:
        model: the masked language model.
        state: the variables that belong to the number of updates; restore it, then set `step`.
        step: the number of updates made.
    """

    def __init__(self, run: Pretraining, accelerator: Accelerator):
        if run.optimizer.gradient_accumulation_steps > 1:
            # It rewrites the sum of a large gradient in the loop over the parts into temporary
            # variables of which two may have one name: AlreadyExistsError, from a width of 512
            # on.
            tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        self._run, self._strategy = run, accelerator.strategy
        self._replicas = accelerator.replicas
        with self._strategy.scope():
            self.model = build_model(run.model_config, run.initialisation.attention, run.seed)
            optimizer = build_optimizer(run.optimizer, self.model.trainable_variables)
        self.state = trackable_state(self.model, optimizer)
        self.step = 0
        self._train_step = distributed_train_step(
            self._strategy, replica_train_step(self.model, optimizer, run.optimizer)
        )
        self._validation_step = distributed_validation_step(self._strategy, self.model)
        self._batches = self._validation_batches = None

    def start_from_counts(self) -> None:
        """Let word embeddings and output bias begin at counts of the train split, beside positions
        that differ in columns of their own, where the family can have that.

        Raises MlmError where it cannot be read.
        """
        run = self._run
        with self._strategy.scope():
            if run.initialisation.attention == "neighbour_heads":
                columns = columns_of_words(run.model_config)
            else:
                columns = positions_apart_from_words(self.model, run.seed)
            start_from_counts(self.model, run.train, run.plan.special_ids, columns, run.seed)

    @property
    def batch_size(self) -> int:
        """Samples in one update."""
        return self._run.global_batch_size(self._replicas)

    def advance(self, steps: int) -> dict:
        """Make `steps` updates; the sums of their loss, accuracy and overflow.

        Raises MlmError where a shard is not, or no longer, what its manifest says.
        """
        if self._batches is None:
            self._batches = iter(self._distributed(self._training_batches, self.batch_size))
        with reading_in_words():
            sums = self._train_step(self._batches, tf.constant(steps))
        self.step += steps
        return sums

    def validate(self) -> tuple[float, float]:
        """Loss in nats and accuracy at the masked positions of the validation samples."""
        if self._validation_batches is None:
            size = self._run.validation_batch_size(self._replicas)
            self._validation_batches = self._distributed(
                lambda: validation_batches(self._run, size), size
            )
        sums = [0.0, 0.0, 0.0]
        for batch in self._validation_batches:
            addends = self._validation_step(batch)
            sums = [s + float(a) for s, a in zip(sums, addends, strict=True)]
        return sums[0] / max(sums[2], 1.0), sums[1] / max(sums[2], 1.0)

    def learning_rate(self) -> float:
        """The learning rate of the last update."""
        return float(LearningRate(self._run.optimizer)(self.step - 1))

    def weights_are_finite(self) -> bool:
        """Whether no trainable weight is infinite or not a number."""
        return all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in self.model.trainable_weights)

    def _training_batches(self) -> tf.data.Dataset:
        run = self._run
        return training_batches(
            run.train,
            run.plan,
            BatchOrder(
                seed=run.seed,
                global_batch_size=self.batch_size,
                shuffle_window=run.shuffle_window,
                start_step=self.step,
                steps=run.steps,
            ),
        )

    def _distributed(self, make_batches, batch_size: int):
        """The batches of `batch_size` that `make_batches()` gives, divided among the replicas."""
        return self._strategy.distribute_datasets_from_function(
            lambda context: replica_shares(make_batches(), context, batch_size)
        )

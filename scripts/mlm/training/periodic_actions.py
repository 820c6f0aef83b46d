"""What is done now and then beside the updates, each a `loop.PeriodicAction`: log and save."""

from dataclasses import asdict

import numpy as np

from mlm.foundations.errors import MlmError
from mlm.training.engine import Engine
from mlm.training.optimisation import learning_rate
from mlm.training.run import Run
from mlm.training.states import StateDirectory
from mlm.training.training_log import Row, TrainingLog, TrainingProgress


def next_multiple(step: int, every: int) -> int:
    """The first multiple of `every` after `step`."""
    return (step // every + 1) * every


def rate_of_step(run: Run, step: int) -> float:
    """The learning rate of update number `step`, from 1."""
    return float(learning_rate(run.pretraining.optimizer, np.float32(step - 1), np))


def not_finite(what: str, run: Run, engine: Engine, states: StateDirectory) -> MlmError:
    """The error of a training that has diverged; `what` is not finite."""
    saved, rate = states.steps(), rate_of_step(run, engine.step)
    kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    return MlmError(
        f"{what} not finite at step {engine.step} (learning rate {rate:.3g}). "
        f"{kept} in {states.path}. Try a lower pretraining.optimizer.learning_rate, a "
        "longer warmup_ratio, max_grad_norm: 1.0, or accelerator.precision: float32"
    )


class Logging:
    """A row of training.csv, with validation if that is due, the line on stderr, and TensorBoard's
    events below the directory `states` (None: another process writes them)."""

    def __init__(
        self, run: Run, record: TrainingLog, progress: TrainingProgress, states: str | None
    ):
        self._run, self._record, self._progress = run, record, progress
        self._events = None
        if states is not None:
            from tensorboard.summary import Writer

            self._events = Writer(f"{states}/tensorboard")

    def due(self, step: int) -> int:
        section = self._run.pretraining
        return min(
            next_multiple(step, section.log_every),
            next_multiple(step, section.validation.every),
            self._run.steps,
        )

    def act(self, step: int, engine: Engine) -> None:
        validated = step % self._run.pretraining.validation.every == 0 or step == self._run.steps
        validation_loss, validation_accuracy = engine.validate() if validated else (None, None)
        means = self._record.means()
        row = Row(
            step=step,
            epoch=step * self._run.batch_size / self._run.train.num_samples,
            loss=means["loss"],
            accuracy=means["accuracy"],
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            learning_rate=rate_of_step(self._run, step),
            tokens_per_second=self._progress.rate(step),
            initialisation_seconds=(
                None if self._record.rows else self._record.initialisation_seconds
            ),
        )
        self._record.rows.append(row)
        if self._events is not None:
            for name, value in asdict(row).items():
                if value is not None and name != "step":
                    self._events.add_scalar(name, value, step)
            self._events.flush()
        self._progress.show(row)


class Saving:
    """The state of the training, so that a kill costs time only."""

    def __init__(self, run: Run, states: StateDirectory, record: TrainingLog):
        self._run, self._states, self._record = run, states, record

    def due(self, step: int) -> int:
        kept = [s for s in self._run.pretraining.checkpoint.keep_steps if s > step]
        return min(
            next_multiple(step, self._run.pretraining.checkpoint.every), self._run.steps, *kept
        )

    def act(self, step: int, engine: Engine) -> None:
        """Save the state, unless a weight is not finite: no good state is pushed out by it."""
        if not engine.weights_are_finite():
            raise not_finite("Some weights are", self._run, engine, self._states)
        self._states.save(step, engine, asdict(self._record))

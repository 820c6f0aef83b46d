"""What is done now and then beside the updates, each a `loop.PeriodicAction`: log, which includes
validation, and save; a training that diverged is stopped."""

from dataclasses import asdict

from mlm.config.pretraining import Checkpoint
from mlm.foundations.errors import MlmError
from mlm.training.console import Console
from mlm.training.engine import Engine
from mlm.training.learning_rate import rate_of_step
from mlm.training.loop import next_multiple
from mlm.training.run import Run
from mlm.training.states import StateDirectory
from mlm.training.training_log import Row, TrainingLog


class Logging:
    """A row of training.csv, with validation if that is due, also for `console`."""

    def __init__(self, run: Run, log: TrainingLog, console: Console):
        self._run, self._log, self._console = run, log, console

    def due(self, step: int) -> int:
        section = self._run.pretraining
        every = section.log_every, section.validation.every
        return min(*(next_multiple(step, n) for n in every), self._run.steps)

    def act(self, step: int, engine: Engine) -> None:
        run, log = self._run, self._log
        validated = step % run.pretraining.validation.every == 0 or step == run.steps
        validation_loss, validation_accuracy = engine.validate() if validated else (None, None)
        loss, accuracy = log.take_means()
        row = Row(
            step=step,
            epoch=step * run.batch_size / run.train.num_samples,
            loss=loss,
            accuracy=accuracy,
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            learning_rate=rate_of_step(run.pretraining.optimizer, step),
            tokens_per_second=self._console.tokens_per_second(step),
            initialisation_seconds=None if log.rows else log.initialisation_seconds,
        )
        log.rows.append(row)
        self._console.write(row)


class Saving:
    """The state of the training, so that a kill costs time only."""

    def __init__(self, run: Run, checkpoint: Checkpoint, states: StateDirectory, log: TrainingLog):
        self._run, self._checkpoint, self._states, self._log = run, checkpoint, states, log

    def due(self, step: int) -> int:
        every, keep_steps = self._checkpoint.every, self._checkpoint.keep_steps
        kept = [s for s in keep_steps if s > step]
        return min(next_multiple(step, every), self._run.steps, *kept)

    def act(self, step: int, engine: Engine) -> None:
        """Save, unless a weight is not finite: no good state is pushed out by it."""
        finite = engine.weights_are_finite()
        check_finite(finite, "Some weights are", self._run, step, self._states)
        self._states.save(step, engine, asdict(self._log))


def check_finite(finite: bool, what: str, run: Run, step: int, states: StateDirectory) -> None:
    """Raise MlmError, which begins with `what`, after update number `step`, unless `finite`."""
    if finite:
        return
    saved, rate = states.steps(), rate_of_step(run.pretraining.optimizer, step)
    kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    raise MlmError(
        f"{what} not finite at step {step} (learning rate {rate:.3g}). {kept} in {states.path}. "
        "Try a lower pretraining.optimizer.learning_rate, a longer warmup_ratio, max_grad_norm: "
        "1.0, or accelerator.precision: float32"
    )

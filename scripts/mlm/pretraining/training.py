"""Pretraining, from the first batch to the exported model: the story of a run."""

import math
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from mlm.batches.input_pipeline import (
    ShardFiles,
    evaluation_batches,
    replica_shares,
    training_batches,
)
from mlm.batches.masking import MaskingPlan
from mlm.foundations.errors import MlmError
from mlm.foundations.framework import tf
from mlm.pretraining.accelerators import Accelerator
from mlm.pretraining.checkpointing import StateDirectory, trackable_state
from mlm.pretraining.length import number_of_updates
from mlm.pretraining.models import build_model
from mlm.pretraining.optimisation import OptimizerSettings, WarmupThenDecay, build_optimizer
from mlm.pretraining.train_step import (
    distributed_train_step,
    distributed_validation_step,
    replica_train_step,
)
from mlm.pretraining.training_log import Events, Progress, Row

#: Masks of the validation samples follow from it in every run, so that their curves compare.
VALIDATION_SEED = 0


@dataclass(frozen=True)
class Pretraining:
    """One run, fully determined: everything that its weights depend on."""

    name: str
    model_config: object
    initialisation: str
    seed: int
    plan: MaskingPlan
    validation_plan: MaskingPlan
    train: ShardFiles
    validation: ShardFiles
    optimizer: OptimizerSettings
    per_replica_batch_size: int
    steps: int
    shuffle_window: int
    validation_every: int
    validation_samples: int | None
    log_every: int
    steps_per_execution: int
    checkpoint_every: int
    profile: tuple[int, int] | None = None
    export_every_epochs: int | None = None

    def global_batch_size(self, replicas: int) -> int:
        """Samples in one update, over all replicas and accumulated batches."""
        return self.per_replica_batch_size * replicas * self.optimizer.gradient_accumulation_steps

    def validation_batch_size(self, replicas: int) -> int:
        """Samples of the validation split in one pass through the model.

        Accumulated batches go one after another in training, and fit a device only so.
        """
        return self.per_replica_batch_size * replicas


def validation_batches(run: Pretraining, batch_size: int) -> tf.data.Dataset:
    """What a validation pass of `run` looks at: the same samples and masks whatever its seed."""
    return evaluation_batches(
        run.validation,
        run.validation_plan,
        seed=VALIDATION_SEED,
        batch_size=batch_size,
        samples=run.validation_samples,
    )


def number_of_steps(section: dict, samples: int, sequence_length: int, batch: int) -> int:
    """Updates that `steps`, `epochs` or `tokens` of the configuration come to.

    A last batch that an epoch only partly fills counts as one. Raises MlmError for a global
    batch that is larger than the split.
    """
    if batch > samples:
        raise MlmError(
            f"pretraining: one step takes {batch} samples (batch × replicas × accumulation), but "
            f"the train split has only {samples}. Lower pretraining.per_replica_batch_size"
        )
    return number_of_updates(section, samples, sequence_length, batch)


@dataclass
class Progressed:
    """What is saved beside the variables: rows so far, and sums since the last row."""

    rows: list[Row] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    steps_in_sums: int = 0
    overflow: float = 0.0

    def add(self, found: dict, steps: int) -> None:
        """Take in the summed metrics of `steps` steps."""
        for key, value in found.items():
            self.sums[key] = self.sums.get(key, 0.0) + float(value)
        self.steps_in_sums += steps

    def means(self) -> dict[str, float]:
        """Means since the last call; the sums start anew."""
        means = {k: v / self.steps_in_sums for k, v in self.sums.items()}
        self.overflow += self.sums.get("overflow", 0.0)
        self.sums, self.steps_in_sums = {}, 0
        return means

    @classmethod
    def of(cls, saved: dict) -> "Progressed":
        """From what `asdict` made of it."""
        return cls(**(saved | {"rows": [Row(**row) for row in saved["rows"]]}))


@dataclass(frozen=True)
class Trained:
    """The end of a run: the model and what is reported of the way there."""

    model: object
    rows: list[Row]
    overflow: int


@contextmanager
def _stop_signals() -> Iterator[list[str]]:
    """Collects SIGTERM and SIGINT, so that the step under way is finished and saved."""
    received: list[str] = []

    def note(number, _frame):
        received.append(signal.Signals(number).name)
        print(f"{received[-1]}: saving the state before stopping", file=sys.stderr)

    previous = {s: signal.signal(s, note) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def pretrain(
    run: Pretraining, accelerator: Accelerator, states: StateDirectory, pushes=None
) -> Trained:
    """Train from the last saved state, or from the start, to the end.

    `pushes` (mlm.publishing.background) is offered the model after every execution.
    Raises MlmError when stopped by a signal (after saving), on a loss that is not finite,
    and where the state cannot be written.
    """
    states.acquire()
    try:
        return _pretrain(run, accelerator, states, pushes)
    finally:
        states.release()


def _pretrain(
    run: Pretraining, accelerator: Accelerator, states: StateDirectory, pushes
) -> Trained:
    if run.optimizer.gradient_accumulation_steps > 1:
        # It rewrites the sum of a large gradient in the loop over the parts into temporary
        # variables of which two may have one name: AlreadyExistsError, from a width of 512 on.
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    with accelerator.strategy.scope():
        model = build_model(run.model_config, run.initialisation, run.seed)
        optimizer = build_optimizer(run.optimizer, model.trainable_variables)
    state = trackable_state(model, optimizer)
    restored = states.restore(state)
    first_step, progressed = 0, Progressed()
    if restored is not None:
        first_step, progressed = restored[0], Progressed.of(restored[1])
        print(f"{run.name}: goes on from step {first_step} of {run.steps}", file=sys.stderr)
    elif others := states.others():
        print(f"{run.name}: starts anew. States of other trainings are there:", file=sys.stderr)
        for other in others:
            print(f"  {other}: {states.difference(other)}", file=sys.stderr)
        print("They are not used, and can be deleted", file=sys.stderr)

    with _stop_signals() as signals:
        loop = _Loop(run, accelerator, states, model, optimizer, state, progressed, pushes)
        loop.run(first_step, signals)
    return Trained(model=model, rows=progressed.rows, overflow=round(progressed.overflow))


class _Loop:
    """The steps themselves, between the boundaries where something is due."""

    def __init__(self, run, accelerator, states, model, optimizer, state, progressed, pushes):
        self.run_settings: Pretraining = run
        self.strategy, self.states, self.state = accelerator.strategy, states, state
        self.replicas = accelerator.replicas
        self.batch = run.global_batch_size(self.replicas)
        self.model, self.progressed, self.pushes = model, progressed, pushes
        self.step_function = distributed_train_step(
            self.strategy, replica_train_step(model, optimizer, run.optimizer)
        )
        self.validation_function = distributed_validation_step(self.strategy, model)
        self.validation_batches = None
        self.events = Events(f"{states.path}/tensorboard")
        self.profiling = False

    def run(self, step: int, signals: list[str]) -> None:
        run = self.run_settings
        if step >= run.steps:
            return
        progress = Progress(run.name, run.steps, step, self.batch * run.train.sequence_length)
        batches = iter(self._distributed(lambda: self._training(step), self.batch))
        while step < run.steps:
            count = self._steps_to_boundary(step)
            self._profile(step)
            found = self.step_function(batches, tf.constant(count))
            step += count
            self.progressed.add(found, count)
            progress.begin(step)
            self._check_finite(step)
            # Read once: a signal from here on is for the next execution.
            stopped_by = signals[0] if signals else None
            validates = step % run.validation_every == 0 or step == run.steps
            if validates or step % run.log_every == 0:
                self._log(step, progress, validates)
            if step % run.checkpoint_every == 0 or step == run.steps or stopped_by:
                self._save(step)
            self._export_epoch(step, count)
            if self.pushes is not None:
                self.pushes.offer(step, count, self.model)
            if stopped_by and step < run.steps:
                raise MlmError(
                    f"Stopped by {stopped_by} after step {step} of {run.steps}. The state is saved "
                    f"in {self.states.path}; the same command goes on from there"
                )
        self._profile(step)

    def _distributed(self, make_batches, batch_size: int):
        """The batches of `batch_size` that `make_batches()` gives, divided among the replicas."""
        return self.strategy.distribute_datasets_from_function(
            lambda context: replica_shares(make_batches(), context, batch_size)
        )

    def _training(self, step: int) -> tf.data.Dataset:
        run = self.run_settings
        return training_batches(
            run.train,
            run.plan,
            seed=run.seed,
            global_batch_size=self.batch,
            shuffle_window=run.shuffle_window,
            start_step=step,
            steps=run.steps,
        )

    def _steps_to_boundary(self, step: int) -> int:
        """Steps of the next execution: it ends where something is due."""
        run = self.run_settings
        due = [run.log_every, run.checkpoint_every, run.validation_every]
        ends = [(step // every + 1) * every for every in due] + [run.steps]
        if run.export_every_epochs:
            samples = run.export_every_epochs * run.train.num_samples
            ends.append(-(-(step * self.batch // samples + 1) * samples // self.batch))
        if run.profile:
            ends += [edge for edge in (run.profile[0] - 1, run.profile[1]) if edge > step]
        return min([run.steps_per_execution, *(end - step for end in ends)])

    def _check_finite(self, step: int) -> None:
        """Raise MlmError where the sum of the losses up to `step` is not finite."""
        if not math.isfinite(self.progressed.sums["loss"]):
            raise self._not_finite("The loss is", step)

    def _not_finite(self, what: str, step: int) -> MlmError:
        saved = self.states.steps()
        kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
        return MlmError(
            f"{what} not finite at step {step} (learning rate {self._learning_rate(step):.3g}). "
            f"{kept} in {self.states.path}. Try a lower pretraining.optimizer.learning_rate, a "
            "longer warmup_ratio, max_grad_norm: 1.0, or accelerator.precision: float32"
        )

    def _save(self, step: int) -> None:
        """Save the state, unless a weight is not finite: no good state is pushed out by it."""
        if not all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in self.model.trainable_weights):
            raise self._not_finite("Some weights are", step)
        self.states.save(step, self.state, asdict(self.progressed))

    def _log(self, step: int, progress: Progress, validates: bool) -> None:
        run = self.run_settings
        means = self.progressed.means()
        seen = self._validate() if validates else (None, None)
        row = Row(
            step=step,
            epoch=step * self.batch / run.train.num_samples,
            loss=means["loss"],
            accuracy=means["accuracy"],
            validation_loss=seen[0],
            validation_accuracy=seen[1],
            learning_rate=self._learning_rate(step),
            tokens_per_second=progress.rate(step),
        )
        self.progressed.rows.append(row)
        self.events.add(row)
        progress.show(row)

    def _learning_rate(self, step: int) -> float:
        """The learning rate of the update that led to `step`."""
        return float(WarmupThenDecay(self.run_settings.optimizer)(step - 1))

    def _validate(self) -> tuple[float, float]:
        """Loss in nats and accuracy at the masked positions of the validation samples."""
        run = self.run_settings
        if self.validation_batches is None:
            size = run.validation_batch_size(self.replicas)
            self.validation_batches = self._distributed(lambda: validation_batches(run, size), size)
        sums = [0.0, 0.0, 0.0]
        for batch in self.validation_batches:
            found = self.validation_function(batch)
            sums = [s + float(f) for s, f in zip(sums, found, strict=True)]
        return sums[0] / max(sums[2], 1.0), sums[1] / max(sums[2], 1.0)

    def _profile(self, step: int) -> None:
        """Start the trace before the first step asked for, and stop it after the last."""
        first, last = self.run_settings.profile or (0, 0)
        if first <= step + 1 <= last and not self.profiling:
            tf.profiler.experimental.start(f"{self.states.path}/profile")
            self.profiling = True
        elif self.profiling and (step >= last or step == self.run_settings.steps):
            tf.profiler.experimental.stop()
            self.profiling = False

    def _export_epoch(self, step: int, count: int) -> None:
        """Export the model into the state directory where the asked-for epochs end."""
        every = self.run_settings.export_every_epochs
        if not every:
            return
        samples = self.run_settings.train.num_samples * every
        done, before = step * self.batch // samples, (step - count) * self.batch // samples
        if done > before:
            from mlm.pretraining.export import export_model

            export_model(self.model, f"{self.states.path}/exports/epoch-{done * every:04d}")

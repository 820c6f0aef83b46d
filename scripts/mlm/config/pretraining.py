"""Section `pretraining`: masks, length, optimizer and states; and all that a training needs."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mlm.config import fields
from mlm.config.accelerator import Accelerator
from mlm.config.fields import (
    BelowOne,
    Count,
    NoBoolean,
    Positive,
    Section,
    Seed,
    Text,
    section,
    unexpanded,
)
from mlm.config.model import Model
from mlm.foundations.environment import installed_version
from mlm.foundations.errors import MlmError


@dataclass(frozen=True)
class OptimizerKind:
    """The keys that the updates read, beside rate and decay, and the most `moments` of a weight."""

    keys: tuple[str, ...]
    moments: int


#: By name. `OPTIMIZERS` in `mlm.training.optimizers` has the updates.
OPTIMIZERS = {
    "adamw": OptimizerKind(("beta_1", "beta_2", "epsilon"), moments=2),
    "muon": OptimizerKind(("beta_1", "beta_2", "epsilon", "momentum"), moments=2),
}


class Optimizer(Section):
    """An optimizer, and the schedule of its learning rate."""

    name: Literal[*OPTIMIZERS] = "muon"  # pyright: ignore[reportInvalidTypeForm]
    """muon: orthogonal updates of the hidden matrices, AdamW for all else. adamw: AdamW for all."""
    learning_rate: Positive = 0.008
    """Peak learning rate, shared by Muon and its AdamW."""
    weight_decay: fields.NotNegative = 0.0
    """Decoupled weight decay, not applied to biases and norms."""
    beta_1: BelowOne = 0.9
    """AdamW's decay rate of the first moment."""
    beta_2: BelowOne = 0.98
    """AdamW's decay rate of the second moment."""
    epsilon: Positive = 1e-6
    """Term added to AdamW's denominator for numerical stability."""
    momentum: BelowOne = 0.95
    """Muon's decay rate."""
    max_grad_norm: Positive | None = 1.0
    """Maximum global norm of the gradients, for clipping; null: no clipping."""
    warmup_steps: fields.NotNegative = 0.05
    """Steps of the linear warmup to the peak; below 1, a share of the schedule."""
    decay: Literal["linear", "cosine", "1-sqrt"] = "linear"
    """Shape of the decay to min_lr_ratio of the peak, at the end of the schedule."""
    decay_steps: fields.NotNegative | None = None
    """Steps of the decay at the end of the schedule; below 1, a share; null: after the warmup."""
    min_lr_ratio: fields.Fraction = 0.0
    """Final learning rate, as a share of the peak."""
    schedule_steps: Count | None = None
    """Length of the schedule in steps; null: the length of the training."""
    gradient_accumulation_steps: Count = 1
    """Batches whose gradients are accumulated before one update."""

    @property
    def kind(self) -> OptimizerKind:
        return OPTIMIZERS[self.name]

    def contradictions(self) -> Iterator[str]:
        others = {key: name for name, kind in OPTIMIZERS.items() for key in kind.keys}
        for key in sorted(others.keys() - set(self.kind.keys)):
            value, default = getattr(self, key), type(self).model_fields[key].default
            if value != default:
                yield f"{key}: {value}, which {self.name} does not have. Set name: {others[key]}"

    def scheduled(self, steps: int) -> Self:
        """The optimizer of a training of `steps` updates, whose lengths are all in steps; MlmError
        if warmup and decay are longer than the schedule."""
        if problem := next(self.too_long(steps), None):
            raise MlmError(f"pretraining.optimizer.{problem}")
        schedule = self.schedule_steps or steps
        warmup, decay = self._lengths(schedule)
        lengths = {"schedule_steps": schedule, "warmup_steps": warmup, "decay_steps": decay}
        return self.model_copy(update=lengths)

    def too_long(self, steps: int | None) -> Iterator[str]:
        """A line if warmup and decay are longer than a training of `steps` (None: not known)."""
        if schedule := self.schedule_steps or steps:
            warmup, decay = self._lengths(schedule)
            if warmup + decay > schedule:
                yield (
                    f"warmup_steps: the learning rate rises for {warmup} steps and falls for "
                    f"{decay}, but the schedule has {schedule}. Lower warmup_steps or decay_steps, "
                    "or train longer"
                )

    def _lengths(self, schedule: int) -> tuple[int, int]:
        """Steps of the warmup and of the decay in a schedule of `schedule` steps."""

        def steps(length: float) -> int:
            return math.ceil(length * schedule if length < 1 else length)

        warmup, decay = steps(self.warmup_steps), self.decay_steps
        return warmup, max(schedule - warmup, 0) if decay is None else steps(decay)


@dataclass(frozen=True)
class GlobalBatch:
    """`per_replica` samples, or rows of phase `phase`, on each of `replicas`, in each of the
    `accumulated` batches."""

    per_replica: int
    replicas: int
    accumulated: int
    phase: int | None = None

    @property
    def key(self) -> str:
        """The key that sets `per_replica`."""
        phase = "" if self.phase is None else f"phases[{self.phase}]."
        return f"pretraining.{phase}per_replica_batch_size"

    @property
    def samples(self) -> int:
        return self.per_replica * self.replicas * self.accumulated

    def unfilled(self, samples: int, has: str = "has") -> str | None:
        """Why a train split that `has` so many samples is too small, in words; None if not."""
        if self.samples <= samples:
            return None
        advice = "Not even a batch of 1 is filled: add text, take fewer replicas or accumulate less"
        if largest := samples // (self.replicas * self.accumulated):
            advice = f"Lower {self.key} to {largest:,} or less"
        what = "samples" if self.phase is None else f"rows of phases[{self.phase}]"
        return (
            f"one step takes {self.samples:,} {what} ({self.per_replica:,} × {self.replicas} "
            f"replicas × {self.accumulated} accumulated), and the train split {has} {samples:,}. "
            f"{advice}"
        )


#: A row is of the samples of one block of the shards.
_LONGEST_ROW = 1024


class Masking(Section):
    mlm_probability: fields.ProperFraction = 0.3
    """Share of the tokens to predict."""
    mask_token: fields.Fraction = 0.8
    """Share of the chosen tokens replaced by the mask token."""
    random_token: fields.Fraction = 0.1
    """Share of the chosen tokens replaced by a random token; the rest stay visible."""
    whole_word: bool = False
    """Choose whole words instead of tokens, each with the same probability."""
    slots: Count | None = None
    """Maximum predictions in a sample; null: enough. Chosen tokens beyond it stay and are
    counted."""

    def contradictions(self) -> Iterator[str]:
        replaced = self.mask_token + self.random_token
        if replaced > 1 + 1e-9:
            yield f"mask_token: it and random_token add up to {replaced:g}, more than 1"

    @property
    def replacement(self) -> str:
        """Percent of the chosen tokens that are masked, random and visible, as in 80/10/10."""
        shares = self.mask_token, self.random_token
        return "/".join(f"{100 * share:.3g}" for share in (*shares, 1 - sum(shares)))


class Validation(Section):
    every: Count = 500
    """Steps between validations."""
    samples: Count | None = 2000
    """Samples of a validation, the same in all runs, spread over the split; null: all."""


class Checkpoint(Section):
    every: Count = 500
    """Steps between checkpoints. A checkpoint is up to three times as large as the model."""
    keep: Count | None = 2
    """Latest checkpoints to keep (null: all)."""
    keep_steps: list[Count] = []
    """Steps with extra checkpoints to keep."""
    directory: Text = "state"
    """Directory of the checkpoints, or a gs:// prefix."""

    def contradictions(self) -> Iterator[str]:
        hint = unexpanded(self.directory)
        if hint or "\0" in self.directory:
            yield f"directory: {self.directory!r} is no path that can be made{hint}"
        scheme, there, _ = self.directory.partition("://")
        if there and scheme != "gs":
            yield f"directory: {self.directory!r} is neither a directory nor a gs:// prefix"


class ContinueFrom(Section):
    run: Text | None = None
    """Start from a checkpoint of this run, which must be the same training up to that step."""
    step: Count | None = None
    """The step of that checkpoint."""


class Phase(Section):
    """A part of the training."""

    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the steps."""
    sequence_length: Count | None = None
    """Tokens of a row: consecutive samples, so many that they are as long; null: one sample."""
    mlm_probability: fields.ProperFraction | None = None
    """Share of the tokens to predict; null: masking.mlm_probability."""
    per_replica_batch_size: Count | None = None
    """Rows on one replica in one step; null: as many as keep the tokens of a step."""


@dataclass(frozen=True)
class SettledPhase:
    """A phase with every value."""

    share: float
    sequence_length: int
    mlm_probability: float
    per_replica_batch_size: int
    #: Its place, from 0, in `phases`, if there are any.
    number: int | None


#: The keys of section `pretraining` that say how long a training is: one replaces another.
LENGTHS = ("steps", "epochs", "tokens")


def with_one_length(values: dict, under: dict) -> dict:
    """Return `values` to be laid over `under`: a length in them sets the others to null."""
    if all(values.get(key) is None for key in LENGTHS):
        return values
    return values | {k: None for k in LENGTHS if k not in values and under.get(k) is not None}


class Recipe(Section):
    """What of section `pretraining` decides the weights and the log."""

    engine: Literal["auto", "tensorflow", "jax"] = "auto"
    """Training framework; it affects the result. auto: tensorflow, or jax without it."""
    seed: Seed | None = None
    """Seed of the run; null: the seed above. Several seeds are several runs."""
    masking: Masking = section(Masking)
    per_replica_batch_size: Count = 64
    """Samples on one replica in one step."""
    steps: Count | None = 1400
    """Length in steps. Set one of steps, epochs, tokens; a run's or overlay's replaces another."""
    epochs: Annotated[float, Field(gt=0, le=1_000_000), NoBoolean] | None = None
    """Length in passes over the train split."""
    tokens: fields.TokenCount | None = None
    """Length in tokens."""
    phases: Annotated[list[Phase], Field(min_length=1)] | None = None
    """Consecutive parts of the training, with different row lengths, mask shares and batches;
    validation and evaluation have the rows of the last. null: one part, whose rows are samples."""
    optimizer: Optimizer = section(Optimizer)
    softmax_classes: Annotated[int, Field(ge=64, le=1_000_000), NoBoolean] | None = 1500
    """Maximum number of ids in a training step's softmax, sampled at each step, so that training
    loss and accuracy are estimates. null: the whole vocabulary, as in validation."""
    attend: Literal["sample", "document"] = "sample"
    """What a token attends to: its sample, or only its document in the sample."""
    rematerialise: bool = False
    """Recompute activations for the gradient: less memory, a third more time."""
    shuffle_window: Count = 131_072
    """Samples that are shuffled together: blocks of 1,024 from all parts of the split."""
    validation: Validation = section(Validation)
    log_every: Count = 20
    """Steps between rows of training.csv."""

    @model_validator(mode="before")
    @classmethod
    def _default_length_gives_way(cls, values: Any) -> Any:
        under = {"steps": cls.model_fields["steps"].default}
        return with_one_length(values, under) if isinstance(values, dict) else values

    def in_phases(self, sequence_length: int) -> list[SettledPhase]:
        """The phases with every value, for samples of that length; one without `phases`."""

        def settled(number: int, phase: Phase) -> SettledPhase:
            length, batch = phase.sequence_length or sequence_length, self.per_replica_batch_size
            rows = phase.per_replica_batch_size or batch * sequence_length // length
            probability = phase.mlm_probability or self.masking.mlm_probability
            place = number if self.phases else None
            return SettledPhase(phase.share, length, probability, rows, place)

        return [settled(*one) for one in enumerate(self.phases or [Phase(share=1.0)])]

    def ends(self, steps: int) -> list[int]:
        """The last step of each phase in a training of `steps`."""
        shares = accumulate(phase.share for phase in (self.phases or ())[:-1])
        return [*(round(share * steps) for share in shares), steps]

    def without_step(self, steps: int) -> str | None:
        """A line if a training of `steps` leaves a phase none."""
        if self.phases and len({0, *self.ends(steps)}) <= len(self.phases):
            return f"phases: one has no step of {steps}"
        return None

    def unfit_phases(self, sequence_length: int) -> Iterator[str]:
        """A line for each phase that samples of that length cannot make."""
        for number, phase in enumerate(self.phases or ()):
            length = phase.sequence_length or sequence_length
            tokens = self.per_replica_batch_size * sequence_length
            if length % sequence_length or length > _LONGEST_ROW * sequence_length:
                yield (
                    f"phases[{number}].sequence_length: {length}, which is no multiple of "
                    f"shards.sequence_length, {sequence_length}, up to {_LONGEST_ROW} times it"
                )
            elif not phase.per_replica_batch_size and tokens % length:
                yield (
                    f"phases[{number}]: {tokens} tokens of a step on a replica are no whole number "
                    f"of rows of {length}. Set its per_replica_batch_size"
                )

    def batch_on(self, replicas: int, phase: SettledPhase | None = None) -> GlobalBatch:
        """A batch of a `phase` with every value, or of a training without."""
        size, number = (phase or self).per_replica_batch_size, phase and phase.number
        return GlobalBatch(size, replicas, self.optimizer.gradient_accumulation_steps, number)

    def contradictions(self) -> Iterator[str]:
        lengths = {k: v for k in LENGTHS if (v := getattr(self, k))}
        if len(lengths) != 1:
            values = ", ".join(f"{k}: {v}" for k, v in lengths.items()) or "none of them"
            yield f"steps: of steps, epochs and tokens set one, the others to null; found {values}"
        yield from (f"optimizer.{line}" for line in self.optimizer.too_long(self.steps))
        if self.phases and abs(sum(phase.share for phase in self.phases) - 1) > 1e-6:
            shares = " + ".join(f"{phase.share:g}" for phase in self.phases)
            yield f"phases: the shares {shares} do not add up to 1"
        elif self.steps and (problem := self.without_step(self.steps)):
            yield problem


class Pretraining(Recipe):
    continue_from: ContinueFrom = section(ContinueFrom)
    checkpoint: Checkpoint = section(Checkpoint)

    @property
    def recipe(self) -> Recipe:
        return Recipe.model_validate(self.model_dump(include=set(Recipe.model_fields)))

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        start = self.continue_from
        if (start.run is None) != (start.step is None):
            values = f"run: {start.run}, step: {start.step}"
            yield f"continue_from: run and step go together; found {values}"
        elif start.step and self.steps and start.step >= self.steps:
            yield f"continue_from.step: {start.step} leaves nothing to train of steps: {self.steps}"


def engine_for(engine: str) -> str:
    """The engine, "tensorflow" or "jax"; "auto" is jax where that alone is installed."""
    if engine != "auto":
        return engine
    alone = installed_version("jax") and not installed_version("tensorflow")
    return "jax" if alone else "tensorflow"


class Operation(Section):
    """How a training is carried out: settings that change no byte of its result."""

    checkpoint: Checkpoint = section(Checkpoint)
    continue_from: ContinueFrom = section(ContinueFrom)
    #: The run that it continues.
    parent: "RunConfiguration | None" = None


class RunConfiguration(Section):
    """What a training depends on: the sections of one run, and what it shares with the others."""

    name: Text
    model: Model
    pretraining: Recipe = section(Recipe)
    accelerator: Accelerator = section(Accelerator)
    seed: Seed = 0
    sequence_length: Count
    corpus_source: Text = "embedded"
    operation: Operation = section(Operation)

    def with_values(self, **values: Any) -> Self:
        """The same except for `values`: those of a section are a mapping of what differs in it."""
        return self.model_copy(
            update={
                name: getattr(self, name).model_copy(update=value)
                if isinstance(value, Mapping)
                else value
                for name, value in values.items()
            }
        )

    @property
    def engine(self) -> str:
        """What computes the run, "tensorflow" or "jax"."""
        return engine_for(self.pretraining.engine)

    @property
    def phases(self) -> list[SettledPhase]:
        """The phases of the training with every value."""
        return self.pretraining.in_phases(self.sequence_length)

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that the model is trained on."""
        return max(phase.sequence_length for phase in self.phases)

    @property
    def last_row_samples(self) -> int:
        """Samples in a row of the last phase, of validation and of the evaluation."""
        return self.phases[-1].sequence_length // self.sequence_length

    @property
    def training_seed(self) -> int:
        """The seed of initial weights, masks and order."""
        return self.seed if self.pretraining.seed is None else self.pretraining.seed

    @property
    def for_preflight(self) -> Self:
        """What a compilation depends on: of the accelerator, what the program depends on."""
        accelerator = self.accelerator.only("precision", "deterministic")
        return self.model_copy(update={"accelerator": accelerator})

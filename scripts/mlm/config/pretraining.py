"""Section `pretraining`: masks, length, optimizer, and what is saved on the way."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mlm.config import fields
from mlm.config.fields import Count, Section, Text, section, unexpanded
from mlm.config.global_batch import GlobalBatch
from mlm.config.merging import LENGTHS, with_its_length_alone
from mlm.config.optimizers import OptimizerSection
from mlm.foundations.environment import installed_version


class Masking(fields.MaskedShares):
    mlm_probability: fields.ProperFraction = 0.3
    whole_word: bool = False
    """Choose whole words instead of tokens, each with the same probability."""
    slots: Count | None = None
    """Maximum number of predictions in a sequence; null: enough. What is beyond it is counted."""


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


class Recipe(Section):
    """What of section `pretraining` decides the weights and the log."""

    engine: Literal["auto", "tensorflow", "jax"] = "auto"
    """Training framework; it affects the result. auto: tensorflow, but jax if TensorFlow is
    not installed."""
    seed: fields.Seed | None = None
    """Seed of the run; null: the seed above. Several seeds are several runs."""
    masking: Masking = section(Masking)
    per_replica_batch_size: Count = 64
    """Samples on one replica in one step."""
    steps: Count | None = 3400
    """Length in steps. Set one of steps, epochs, tokens; a run's or overlay's replaces another."""
    epochs: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Length in passes over the train split."""
    tokens: fields.TokenCount | None = None
    """Length in tokens."""
    optimizer: OptimizerSection = section(OptimizerSection)
    softmax_classes: Annotated[int, Field(ge=64, le=1_000_000)] | None = 1500
    """Maximum number of ids in a training step's softmax, sampled at each step, so that training
    loss and accuracy are estimates. null: the whole vocabulary, as in validation."""
    attend: Literal["sample", "document"] = "sample"
    """What a token attends to: its sample, or only its document in it."""
    rematerialise: bool = False
    """Recompute activations for the gradient: less memory, a third more time."""
    shuffle_window: Count = 131_072
    """Samples that are shuffled among themselves: blocks of 1,024 from all over the split."""
    validation: Validation = section(Validation)
    log_every: Count = 20
    """Steps between rows of training.csv."""
    steps_per_execution: Count = 1
    """Steps on the accelerator per host call (engine: tensorflow)."""

    @model_validator(mode="before")
    @classmethod
    def _default_length_gives_way(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return with_its_length_alone(given, {"steps": cls.model_fields["steps"].default})

    def batch_on(self, replicas: int) -> GlobalBatch:
        accumulated = self.optimizer.gradient_accumulation_steps
        return GlobalBatch(self.per_replica_batch_size, replicas, accumulated)

    def updates(self, samples: int, sequence_length: int, batch: int) -> int:
        """The length in updates, for a train split of `samples` in batches of `batch`."""
        if self.steps:
            return self.steps
        if self.epochs:
            return max(1, math.ceil(self.epochs * samples / batch))
        return max(1, math.ceil(self.tokens / (batch * sequence_length)))

    def contradictions(self) -> Iterator[str]:
        if engine_for(self.engine) == "jax" and self.steps_per_execution != 1:
            yield (
                f"steps_per_execution: {self.steps_per_execution}, which engine: jax does not "
                "have. Set engine: tensorflow, or leave steps_per_execution out"
            )
        lengths = {k: v for k in LENGTHS if (v := getattr(self, k))}
        if len(lengths) != 1:
            found = ", ".join(f"{k}: {v}" for k, v in lengths.items()) or "none of them"
            yield f"steps: of steps, epochs and tokens set one, the others to null; found {found}"
        yield from (f"optimizer.{line}" for line in self.optimizer.too_long(self.steps))


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
            yield (
                "continue_from: run and step go together; found "
                f"run: {start.run}, step: {start.step}"
            )
        elif start.run and self.steps and start.step >= self.steps:
            yield f"continue_from.step: {start.step} leaves nothing to train of steps: {self.steps}"


def engine_for(asked: str) -> str:
    """The engine, "tensorflow" or "jax", where `pretraining.engine` says `asked`: "auto" is jax
    where that alone is installed."""
    if asked != "auto":
        return asked
    alone = installed_version("jax") and not installed_version("tensorflow")
    return "jax" if alone else "tensorflow"

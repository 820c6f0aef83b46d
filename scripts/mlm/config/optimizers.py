"""Section `pretraining.optimizer`: the optimizers and the schedule of the learning rate."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlm.config import fields
from mlm.config.fields import BelowOne, Count, Positive, Section
from mlm.foundations.errors import MlmError


@dataclass(frozen=True)
class OptimizerKind:
    """The keys of the section that the updates read, apart from rate and decay, and how many
    `moments` a weight has, at most."""

    keys: tuple[str, ...]
    moments: int


#: By name. `OPTIMIZERS` in `mlm.training.optimizers` has the updates.
OPTIMIZERS = {
    "adamw": OptimizerKind(("beta_1", "beta_2", "epsilon"), moments=2),
    "muon": OptimizerKind(("beta_1", "beta_2", "epsilon", "momentum"), moments=2),
}


class Optimizer(Section):
    """An optimizer with the lengths of its schedule in steps."""

    name: Literal[*OPTIMIZERS] = "muon"
    """muon: orthogonal updates of the hidden matrices, AdamW for all else. adamw: AdamW for all."""
    learning_rate: Positive = 0.006
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
    warmup_steps: fields.NotNegativeCount | None = None
    """Steps of the warmup, instead of warmup_ratio."""
    decay: Literal["linear", "cosine", "1-sqrt"] = "linear"
    """Shape of the decay, down to min_lr_ratio of the peak at the end of the schedule."""
    decay_steps: fields.NotNegativeCount | None = None
    """Steps of the decay, instead of decay_ratio."""
    min_lr_ratio: fields.Fraction = 0.0
    """Final learning rate, as a share of the peak."""
    schedule_steps: Count | None = None
    """Length of the schedule in steps; null: the length of the training."""
    gradient_accumulation_steps: Count = 1
    """Batches whose gradients are accumulated before one update."""

    @property
    def kind(self) -> OptimizerKind:
        return OPTIMIZERS[self.name]


class OptimizerSection(Optimizer):
    warmup_ratio: fields.Fraction = 0.05
    """Share of the schedule for a linear warmup to the peak."""
    decay_ratio: fields.Fraction | None = None
    """Share of the schedule for the decay, at its end; null: all after the warmup."""

    def contradictions(self) -> Iterator[str]:
        for key in sorted({key for kind in OPTIMIZERS.values() for key in kind.keys}):
            value, usual = getattr(self, key), type(self).model_fields[key].default
            if key not in self.kind.keys and value != usual:
                names = " or ".join(name for name, kind in OPTIMIZERS.items() if key in kind.keys)
                yield (
                    f"{key}: {value}, which is for {names}, not for {self.name}. Set name: "
                    f"{names}, or leave {key} at {usual}"
                )

    def scheduled(self, steps: int) -> Optimizer:
        """The optimizer of a training of `steps` updates, whose lengths are all in steps; MlmError
        if warmup and decay are longer than the schedule."""
        if problem := next(self.too_long(steps), None):
            raise MlmError(f"pretraining.optimizer.{problem}")
        schedule = self.schedule_steps or steps
        warmup, decay = self._lengths(schedule)
        lengths = {"schedule_steps": schedule, "warmup_steps": warmup, "decay_steps": decay}
        optimizer = Optimizer.model_validate(self.model_dump(include=set(Optimizer.model_fields)))
        return optimizer.model_copy(update=lengths)

    def too_long(self, steps: int | None) -> Iterator[str]:
        """A line if warmup and decay are longer than a training of `steps` updates, or than any if
        its length is not known yet (None)."""
        if schedule := self.schedule_steps or steps:
            warmup, decay = self._lengths(schedule)
            if warmup + decay > schedule:
                yield (
                    f"warmup_ratio: the learning rate rises for {warmup} steps and falls for "
                    f"{decay}, but the schedule has {schedule}. Lower warmup_ratio or decay_ratio "
                    "(or warmup_steps, decay_steps), or train longer"
                )
            return
        ratios = self.warmup_ratio + (self.decay_ratio or 0.0)
        if self.warmup_steps is None and self.decay_steps is None and ratios > 1 + 1e-9:
            yield (
                f"warmup_ratio: it and decay_ratio add up to {ratios:g}, more than 1. Lower one of "
                "them"
            )

    def _lengths(self, schedule: int) -> tuple[int, int]:
        """Steps of the warmup and of the decay in a schedule of `schedule` steps."""
        warmup, decay = self.warmup_steps, self.decay_steps
        if warmup is None:
            warmup = math.ceil(self.warmup_ratio * schedule)
        if decay is None and self.decay_ratio is None:
            decay = max(schedule - warmup, 0)
        return warmup, math.ceil(self.decay_ratio * schedule) if decay is None else decay


def updates_of(optimizers: Mapping[str, Any], name: str) -> Any:
    """The updates of the optimizer `name`. Raises MlmError if there are none."""
    if name not in optimizers:
        raise MlmError(
            f"pretraining.optimizer.name: {name!r} has no updates. Set one of "
            f"{', '.join(optimizers)}, or write it (docs/extending.md)"
        )
    return optimizers[name]

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


#: By name. `OPTIMIZERS` in `optimizers` of mlm.training.in_jax and mlm.training.in_tensorflow have
#: the updates.
OPTIMIZERS = {
    "adamw": OptimizerKind(("beta_1", "beta_2", "epsilon"), moments=2),
    "muon": OptimizerKind(("beta_1", "beta_2", "epsilon", "momentum"), moments=2),
}


class Optimizer(Section):
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
    warmup_ratio: fields.Fraction = 0.05
    """Share of the schedule for a linear warmup to the peak."""
    warmup_steps: fields.NotNegativeCount | None = None
    """Steps of the warmup, instead of warmup_ratio."""
    decay: Literal["linear", "cosine", "1-sqrt"] = "linear"
    """Shape of the decay, down to min_lr_ratio of the peak at the end of the schedule."""
    decay_ratio: fields.Fraction | None = None
    """Share of the schedule for the decay, at its end; null: all after the warmup."""
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

    def contradictions(self) -> Iterator[str]:
        for key in sorted({key for kind in OPTIMIZERS.values() for key in kind.keys}):
            value, usual = getattr(self, key), type(self).model_fields[key].default
            if key not in self.kind.keys and value != usual:
                names = " or ".join(name for name, kind in OPTIMIZERS.items() if key in kind.keys)
                yield (
                    f"{key}: {value}, which is for {names}, not for {self.name}. Set name: "
                    f"{names}, or leave {key} at {usual}"
                )

    def lengths(self, schedule: int) -> tuple[int, int]:
        """Steps of the warmup and of the decay in a schedule of `schedule` steps; ValueError, in
        words, if they are longer together."""
        warmup, decay = self.warmup_steps, self.decay_steps
        if warmup is None:
            warmup = math.ceil(self.warmup_ratio * schedule)
        if decay is None:
            ratio = self.decay_ratio
            decay = max(schedule - warmup, 0) if ratio is None else math.ceil(ratio * schedule)
        if warmup + decay > schedule:
            raise ValueError(
                f"warmup_ratio: the learning rate rises for {warmup} steps and falls for {decay}, "
                f"but the schedule has {schedule}. Lower warmup_ratio or decay_ratio (or "
                "warmup_steps, decay_steps), or train longer"
            )
        return warmup, decay

    def too_long(self, schedule: int | None) -> Iterator[str]:
        """A line if warmup and decay are longer than a schedule of `schedule` steps, or than any
        if that is not known yet (None)."""
        ratios = self.warmup_ratio, self.decay_ratio or 0.0
        if schedule:
            try:
                self.lengths(schedule)
            except ValueError as error:
                yield str(error)
        elif self.warmup_steps is None and self.decay_steps is None and sum(ratios) > 1 + 1e-9:
            yield (
                f"warmup_ratio: it and decay_ratio add up to {sum(ratios):g}, more than 1. Lower "
                "one of them"
            )


def updates_of(optimizers: Mapping[str, Any], name: str, engine: str) -> Any:
    """The updates of the optimizer `name` in `engine`; MlmError if that has none of this name."""
    if name not in optimizers:
        raise MlmError(
            f"pretraining.optimizer.name: the engine {engine} has no optimizer {name!r}. Set one "
            f"of {', '.join(optimizers)}, or write it (docs/extending.md)"
        )
    return optimizers[name]

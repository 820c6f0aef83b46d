"""The optimizer's settings, and its learning rate by step."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlm.foundations.errors import MlmError


@dataclass(frozen=True)
class _Muon:
    """What Muon leaves nobody to choose."""

    #: Jordan's quintic: so many iterations bring singular values from 0.01 to 1 to between 0.7 and
    #: 1.2.
    coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    iterations: int = 5
    #: Root mean square of an update at a learning rate of 1, about AdamW's (Liu et al., section
    #: 2.2).
    update_rms: float = 0.2


MUON = _Muon()


def orthogonalising_flops(matrices: Iterable[tuple[int, int]]) -> int:
    """FLOPs of the products with which one update makes `matrices` (their shapes) orthogonal.

    Of a matrix of m x n, m <= n, an iteration multiplies x by xᵀ (2 m²n), the outcome by itself
    (2 m³) and that by x (2 m²n). What is done element by element is left out.
    """
    shapes = [sorted(shape) for shape in matrices]
    return MUON.iterations * sum(4 * m * m * n + 2 * m**3 for m, n in shapes)


@dataclass(frozen=True)
class OptimizerSettings:
    """Section `pretraining.optimizer`, with the schedule's length in steps."""

    name: str
    learning_rate: float
    weight_decay: float
    beta_1: float
    beta_2: float
    epsilon: float
    momentum: float
    max_grad_norm: float | None
    gradient_accumulation_steps: int
    schedule_steps: int
    warmup_steps: int
    decay: str
    decay_steps: int
    min_lr_ratio: float

    @classmethod
    def of(cls, section: dict, steps: int) -> "OptimizerSettings":
        """From the resolved section, for a training of `steps` updates.

        Raises MlmError where warmup and decay are longer than the schedule.
        """
        section = dict(section)
        schedule = section["schedule_steps"] or steps
        ratio, warmup = section.pop("warmup_ratio"), section["warmup_steps"]
        if warmup is None:
            warmup = math.ceil(ratio * schedule)
        ratio, decay = section.pop("decay_ratio"), section["decay_steps"]
        if decay is None:
            decay = max(schedule - warmup, 0) if ratio is None else math.ceil(ratio * schedule)
        if warmup + decay > schedule:
            raise MlmError(
                f"pretraining.optimizer: the learning rate rises for {warmup} steps and falls for "
                f"{decay}, but the schedule has {schedule}. Lower warmup_ratio or decay_ratio (or "
                "warmup_steps, decay_steps), or train longer"
            )
        steps_of = {"schedule_steps": schedule, "warmup_steps": warmup, "decay_steps": decay}
        return cls(**(section | steps_of))


def learning_rate(settings: OptimizerSettings, step, xp: Any):
    """Linear rise to the peak, a plateau if there is one, then a fall to a share of the peak.

    Of `step`, float32 of any shape, with the functions of `xp` (NumPy, JAX or TensorFlow). The fall
    is linear, half a cosine wave, or 1 - sqrt (Hägele et al., 2024, arXiv 2405.18392). The first
    update has step 0 and a learning rate of peak / warmup_steps, not 0.
    """
    s = settings
    first = float(s.schedule_steps - s.decay_steps)
    progress = (step - first) / float(max(s.decay_steps, 1))
    progress = xp.minimum(xp.maximum(progress, 0.0), 1.0)
    if s.decay == "cosine":
        falling = 0.5 * (1.0 + xp.cos(math.pi * progress))
    elif s.decay == "1-sqrt":
        falling = 1.0 - xp.sqrt(progress)
    else:
        falling = 1.0 - progress
    falling = s.min_lr_ratio + (1.0 - s.min_lr_ratio) * falling
    rising = (step + 1.0) / float(max(s.warmup_steps, 1))
    return s.learning_rate * xp.where(step < s.warmup_steps, rising, falling)

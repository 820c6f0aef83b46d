"""The schedule of the learning rate, and which weights decay, the same in both engines."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlm.config.optimizers import Optimizer


def learning_rate(optimizer: Optimizer, step, xp: Any):
    """Linear rise to the peak, a plateau if there is one, then a fall to a share of the peak:
    linear, half a cosine wave, or 1 - sqrt (Hägele et al., 2024, arXiv 2405.18392).

    `step` is float32 of any shape, from 0, and `xp` NumPy, JAX or TensorFlow.
    """
    s = optimizer
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


def rate_of_step(optimizer: Optimizer, step: int) -> float:
    """The learning rate of update number `step`, from 1."""
    return float(learning_rate(optimizer, np.float32(step - 1), np))


def decays(shape: Sequence[int]) -> bool:
    """Whether a weight of this shape decays: not biases and norms, as in BERT's release."""
    return len(shape) > 1

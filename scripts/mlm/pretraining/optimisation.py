"""The optimizer, its schedule, and which weights do not decay."""

import math
from dataclasses import dataclass

from mlm.foundations.errors import MlmError
from mlm.foundations.framework import tf, tf_keras
from mlm.pretraining.adamw import AdamW
from mlm.pretraining.muon import Muon

#: Parts of the names of variables that weight decay leaves alone, as in BERT's release.
NO_DECAY = ("bias", "layernorm", "layer_norm", "beta", "gamma")


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


class LearningRate(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Linear rise to the peak, a plateau if there is one, then a fall to a share of the peak.

    The fall is linear, half a cosine wave, or 1 - sqrt (Hägele et al., 2024, arXiv 2405.18392).
    The first update has step 0 and a learning rate of peak / warmup_steps, not 0.
    """

    def __init__(self, settings: OptimizerSettings):
        self.settings = settings

    def __call__(self, step):
        s = self.settings
        step = tf.cast(step, tf.float32)
        first = float(s.schedule_steps - s.decay_steps)
        progress = tf.clip_by_value((step - first) / float(max(s.decay_steps, 1)), 0.0, 1.0)
        if s.decay == "cosine":
            falling = 0.5 * (1.0 + tf.cos(math.pi * progress))
        elif s.decay == "1-sqrt":
            falling = 1.0 - tf.sqrt(progress)
        else:
            falling = 1.0 - progress
        falling = s.min_lr_ratio + (1.0 - s.min_lr_ratio) * falling
        rising = (step + 1.0) / float(max(s.warmup_steps, 1))
        return s.learning_rate * tf.where(step < s.warmup_steps, rising, falling)

    def get_config(self):
        return {"settings": self.settings}


def decays(name: str) -> bool:
    """Whether weight decay applies to the variable called `name`.

    The layer's and the variable's own part of the name decide: a family may have
    "layer_norm" in the name of the whole model.
    """
    own = "/".join(name.lower().split("/")[-2:])
    return not any(part in own for part in NO_DECAY)


def build_optimizer(settings: OptimizerSettings, variables) -> tf_keras.optimizers.Optimizer:
    """The optimizer that `settings` name, with its slots made; no clipping of its own.

    AdamW (Loshchilov and Hutter, 2019), or Muon with AdamW beside it. Gradients are clipped by the
    train step, after they are summed over the replicas.
    """
    adamw = {
        "learning_rate": LearningRate(settings),
        "weight_decay": settings.weight_decay,
        "beta_1": settings.beta_1,
        "beta_2": settings.beta_2,
        "epsilon": settings.epsilon,
        "jit_compile": False,
    }
    optimizer = Muon(settings.momentum, **adamw) if settings.name == "muon" else AdamW(**adamw)
    kept = [v for v in variables if not settings.weight_decay or not decays(v.name)]
    optimizer.exclude_from_weight_decay(var_list=kept)
    optimizer.build(variables)
    return optimizer

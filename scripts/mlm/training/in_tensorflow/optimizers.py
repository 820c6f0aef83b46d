"""The optimizer in Keras, and which weights do not decay."""

from functools import partial

from mlm.config.pretraining import Optimizer
from mlm.foundations.framework import tf, tf_keras
from mlm.training.in_tensorflow.adamw import AdamW
from mlm.training.in_tensorflow.muon import Muon
from mlm.training.optimisation import learning_rate

#: Parts of the names of variables that weight decay leaves alone, as in BERT's release.
NO_DECAY = ("bias", "layernorm", "layer_norm", "beta", "gamma")


class LearningRate(tf_keras.optimizers.schedules.LearningRateSchedule):
    """`learning_rate` as Keras asks for it."""

    def __init__(self, settings: Optimizer):
        self.settings = settings

    def __call__(self, step):
        return learning_rate(self.settings, tf.cast(step, tf.float32), tf)

    def get_config(self):
        return {"settings": self.settings}


def decays(name: str) -> bool:
    """Whether weight decay applies to the variable called `name`.

    The layer's and the variable's own part of the name decide: a family may have
    "layer_norm" in the name of the whole model.
    """
    own = "/".join(name.lower().split("/")[-2:])
    return not any(part in own for part in NO_DECAY)


def build_optimizer(settings: Optimizer, variables) -> tf_keras.optimizers.Optimizer:
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
    optimizer = {"adamw": AdamW, "muon": partial(Muon, settings.momentum)}[settings.name](**adamw)
    kept = [v for v in variables if not settings.weight_decay or not decays(v.name)]
    optimizer.exclude_from_weight_decay(var_list=kept)
    optimizer.build(variables)
    return optimizer

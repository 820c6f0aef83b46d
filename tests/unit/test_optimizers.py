import math

import pytest

from mlm.config import optimizers
from mlm.config.optimizers import Optimizer, OptimizerSection
from mlm.training.in_jax.optimizers import OPTIMIZERS as IN_JAX
from mlm.training.in_tensorflow.optimizers import OPTIMIZERS as IN_TENSORFLOW
from mlm.training.in_tensorflow.optimizers import LearningRate


def settings(**changes) -> Optimizer:
    given = {"learning_rate": 1e-3, "weight_decay": 0.01, "warmup_ratio": 0.1}
    return OptimizerSection(**(given | changes)).scheduled(100)


def rate(step: int, **changes) -> float:
    return float(LearningRate(settings(**changes))(step))


@pytest.mark.parametrize(
    "changes, rates",
    [
        # It rises linearly over the warmup, from the first step on.
        ({}, {0: 1e-4, 4: 5e-4, 9: 1e-3, 55: 0.5e-3, 100: 0}),
        ({"warmup_ratio": 0.0}, {0: 1e-3}),
        ({"min_lr_ratio": 0.2}, {100: 2e-4, 500: 2e-4}),
        ({"decay": "cosine"}, {32.5: 0.5e-3 * (1 + math.cos(math.pi / 4)), 100: 0}),
        ({"decay_steps": 0}, {50: 1e-3, 99: 1e-3}),
        # It stays at its peak until it falls.
        ({"decay_ratio": 0.2}, {10: 1e-3, 80: 1e-3, 90: 5e-4, 100: 0}),
        ({"decay": "cosine", "decay_steps": 20}, {10: 1e-3, 80: 1e-3, 90: 5e-4, 100: 0}),
        ({"decay": "1-sqrt", "decay_ratio": 0.2}, {80: 1e-3, 90: (1 - 0.5**0.5) * 1e-3, 100: 0}),
    ],
)
def test_the_learning_rate_follows_its_schedule(changes, rates):
    found = {step: rate(step, **changes) for step in rates}
    assert found == pytest.approx(rates, abs=1e-9)


def test_numbers_of_steps_go_before_shares_of_the_schedule():
    assert settings(schedule_steps=400).warmup_steps == 40
    assert settings(warmup_steps=0, decay_ratio=0.5).warmup_steps == 0
    assert settings(decay_steps=7, decay_ratio=0.5).decay_steps == 7


def test_both_engines_have_the_optimizers_of_the_configuration_and_their_moments():
    assert list(IN_JAX) == list(IN_TENSORFLOW) == list(optimizers.OPTIMIZERS)
    for name, rules in IN_JAX.items():
        assert max(len(r.moments) for r in rules) == optimizers.OPTIMIZERS[name].moments

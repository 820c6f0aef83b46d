import math
from functools import partial

import numpy as np
import pytest
from both_frameworks import alike, computed, each_framework, held, in_framework
from tiny_encoder import tiny_config

from mlm.config.families import FAMILIES
from mlm.config.pretraining import Optimizer
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.network import ops_of
from mlm.training.optimizers import (
    OPTIMIZERS,
    clipped,
    first_moments,
    hidden_parts,
    learning_rate,
    rate_of_step,
    updated,
)

#: Matrices of one shape, of that transposed, of two parts, and what is no matrix of a layer.
SHAPES = {"wide": (4, 6), "tall": (6, 4), "two": (8, 6), "words": (9, 4), "bias": (5,)}
HIDDEN = {"wide": 1, "tall": 1, "two": 2}


def settings(**changes) -> Optimizer:
    given = {"learning_rate": 1e-3, "weight_decay": 0.01, "warmup_steps": 0.1}
    return Optimizer(**(given | changes)).scheduled(100)


@pytest.mark.parametrize(
    "changes, rates",
    [
        # It rises linearly over the warmup, from the first step on.
        ({}, {0: 1e-4, 4: 5e-4, 9: 1e-3, 55: 0.5e-3, 100: 0}),
        ({"warmup_steps": 0}, {0: 1e-3}),
        ({"min_lr_ratio": 0.2}, {100: 2e-4, 500: 2e-4}),
        ({"decay": "cosine"}, {32.5: 0.5e-3 * (1 + math.cos(math.pi / 4)), 100: 0}),
        ({"decay_steps": 0}, {50: 1e-3, 99: 1e-3}),
        # It stays at its peak until it falls.
        ({"decay_steps": 0.2}, {10: 1e-3, 80: 1e-3, 90: 5e-4, 100: 0}),
        ({"decay": "cosine", "decay_steps": 20}, {10: 1e-3, 80: 1e-3, 90: 5e-4, 100: 0}),
        ({"decay": "1-sqrt", "decay_steps": 0.2}, {80: 1e-3, 90: (1 - 0.5**0.5) * 1e-3, 100: 0}),
    ],
)
@each_framework
def test_the_learning_rate_follows_its_schedule(framework, changes, rates):
    steps = np.array(list(rates), np.float32)
    rate = partial(learning_rate, settings(**changes), xp=ops_of(framework))
    found = computed(framework, rate, steps)
    np.testing.assert_allclose(found, list(rates.values()), atol=1e-9)


def test_below_one_a_length_is_a_share_of_the_schedule():
    assert settings(schedule_steps=400).warmup_steps == 40
    assert settings(warmup_steps=1).warmup_steps == 1
    assert settings(decay_steps=0.25).decay_steps == 25


def adamw(weight, gradients, s: Optimizer):
    """Algorithm 2 of Loshchilov and Hutter, in float64; epsilon is added to the root of the moment
    before its bias is corrected, as Kingma and Ba (2015, section 2) do for speed."""
    first, second = np.zeros_like(weight), np.zeros_like(weight)
    for t, gradient in enumerate(gradients, start=1):
        rate = rate_of_step(s, t)
        first = s.beta_1 * first + (1 - s.beta_1) * gradient
        second = s.beta_2 * second + (1 - s.beta_2) * gradient**2
        first_hat, second_hat = first / (1 - s.beta_1**t), second / (1 - s.beta_2**t)
        epsilon = s.epsilon / np.sqrt(1 - s.beta_2**t)
        decay = s.weight_decay * weight if weight.ndim > 1 else 0
        weight = weight - rate * (first_hat / (np.sqrt(second_hat) + epsilon) + decay)
    return weight


def newton_schulz(matrix: np.ndarray) -> np.ndarray:
    """Algorithm 1 of Jordan's page, in float64, five times."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / np.linalg.norm(wide)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def muon(weight, gradients, s: Optimizer):
    """Muon of Jordan et al. with Nesterov's momentum, scaled and decayed as by Liu et al."""
    momentum = np.zeros_like(weight)
    for t, gradient in enumerate(gradients, start=1):
        rate = rate_of_step(s, t)
        momentum = s.momentum * momentum + gradient
        step = newton_schulz(gradient + s.momentum * momentum)
        weight = weight - rate * (0.2 * np.sqrt(max(weight.shape)) * step + s.weight_decay * weight)
    return weight


@pytest.mark.parametrize("name", OPTIMIZERS)
@each_framework
def test_five_updates_are_those_of_the_definition(framework, name):
    random, ops = np.random.default_rng(1), ops_of(framework)
    weights, *gradients = (
        {n: random.normal(size=shape).astype(np.float32) for n, shape in SHAPES.items()}
        for _ in range(6)
    )
    how = {"momentum": 0.9} if name == "muon" else {}
    how |= {"weight_decay": 0.5, "epsilon": 1e-3, "warmup_steps": 0.02}
    s = settings(name=name, learning_rate=0.1, **how)
    state = weights, first_moments(np.zeros_like, weights, s, HIDDEN)

    @partial(in_framework, framework)
    def step(weights, moments, gradients, number):
        of_state = held(framework, (weights, moments))
        return updated(ops, *of_state, gradients, number, s, HIDDEN)

    for t, given in enumerate(gradients):
        state = step(*state, given, np.int32(t))
    expected = {}
    for key, weight in weights.items():
        weight, of_weight = weight.astype(float), [g[key].astype(float) for g in gradients]
        if name == "muon" and key in HIDDEN:
            parts = zip(*(np.split(x, HIDDEN[key]) for x in (weight, *of_weight)), strict=True)
            expected[key] = np.concatenate([muon(part, more, s) for part, *more in parts])
        else:
            expected[key] = adamw(weight, of_weight, s)
        assert np.abs(expected[key] - weight).max() > 0.1
    for key, weight in state[0].items():
        np.testing.assert_allclose(weight, expected[key], atol=1e-5, err_msg=key)
    one_moment = HIDDEN if name == "muon" else {}
    assert state[1].keys() == {"first", "second"}
    assert state[1]["second"].keys() == SHAPES.keys() - one_moment


@each_framework
def test_gradients_are_clipped_by_their_global_norm(framework):
    gradients = {"a": np.full((2, 2), 3, np.float32), "b": np.full(7, 2, np.float32)}
    clip = partial(clipped, ops_of(framework))
    for largest, factor in {2.0: 0.25, 8.0: 1.0, 9.0: 1.0, None: 1.0}.items():
        found = computed(framework, partial(clip, max_norm=largest), gradients)
        alike(found, {k: np.float32(factor) * g for k, g in gradients.items()}, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_of_a_models_matrices_muon_takes_all_but_the_embeddings(family):
    architecture = Architecture.of(tiny_config(family))
    shapes, parts = parameter_shapes(architecture), hidden_parts(architecture)
    names = architecture.names
    tables = {f"{name}.weight" for name in (names.words, names.positions, names.token_types)}
    matrices = {name for name, shape in shapes.items() if len(shape) > 1}
    assert parts.keys() == matrices - tables
    # Query, key and value apart, and a gate apart from what it gates.
    a = architecture
    each = {(shapes[name][0] // count, shapes[name][1]) for name, count in parts.items()}
    expected = {(a.width, a.width), (a.inner, a.width), (a.width, a.inner)}
    if a.projects_embeddings:
        expected |= {(a.width, a.embedding), (a.embedding, a.width)}
    assert each == expected

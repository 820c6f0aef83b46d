"""AdamW and Muon as functions of flat dictionaries of weights, by the formulas and rounding of
`mlm.training.in_tensorflow`; optax has others (epsilon, another scale)."""

import math

import jax
import jax.numpy as jnp

from mlm.config.pretraining import Optimizer
from mlm.model.architecture import Architecture
from mlm.training.optimisation import (
    MUON_COEFFICIENTS,
    MUON_ITERATIONS,
    MUON_RMS,
    decays,
    learning_rate,
)


def hidden_parts(architecture: Architecture) -> dict[str, int]:
    """The matrices that Muon updates (all but embeddings), by name, and of how many one below the
    other each consists: query, key and value, or a gated layer's two."""
    a, names, parts = architecture, architecture.names, {}
    for layer in range(a.layers):
        place = f"{names.layer}{layer}."
        for name in names.projections:
            parts[f"{place}{name}.weight"] = 3 // len(names.projections)
        parts[f"{place}{names.attended}.weight"] = 1
        parts[f"{place}{names.inner}.weight"] = 2 if a.gated else 1
        parts[f"{place}{names.output}.weight"] = 1
    return parts | {f"{names.head_dense}.weight": 1}


def first_moments(parameters: dict, settings: Optimizer, hidden: dict[str, int]) -> dict:
    """Moments of 0: `first` of every weight, `second` of those that AdamW updates."""
    of_muon = {"adamw": {}, "muon": hidden}[settings.name]
    adamw = [name for name in parameters if name not in of_muon]
    return {
        "first": {name: jnp.zeros_like(value) for name, value in parameters.items()},
        "second": {name: jnp.zeros_like(parameters[name]) for name in adamw},
    }


def clipped(gradients: dict, largest: float | None) -> dict:
    """`gradients` scaled down to the global norm `largest` if theirs is larger."""
    if largest is None:
        return gradients
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients.values()))
    scale = largest * jnp.minimum(1.0 / norm, 1.0 / largest)
    return {name: g * scale for name, g in gradients.items()}


def updated(
    parameters: dict,
    moments: dict,
    gradients: dict,
    step,
    settings: Optimizer,
    hidden: dict[str, int],
    dtype,
) -> tuple[dict, dict]:
    """Weights and moments after update number `step`, int32 from 0; weights decay before. Muon's
    products are in `dtype`."""
    s = settings
    rate = learning_rate(s, step.astype(jnp.float32), jnp)
    decayed = {
        name: value - value * s.weight_decay * rate
        if s.weight_decay and decays(value.shape)
        else value
        for name, value in parameters.items()
    }
    count = (step + 1).astype(jnp.float32)
    powers = (jnp.power(jnp.float32(beta), count) for beta in (s.beta_1, s.beta_2))
    one, two = powers
    scaled = rate * jnp.sqrt(1 - two) / (1 - one)
    new, first, second = {}, {}, {}
    for name in moments["second"]:
        g, m, v = gradients[name], moments["first"][name], moments["second"][name]
        first[name] = m + (g - m) * (1 - s.beta_1)
        second[name] = v + (jnp.square(g) - v) * (1 - s.beta_2)
        new[name] = decayed[name] - first[name] * scaled / (jnp.sqrt(second[name]) + s.epsilon)

    ahead = {}
    for name in (name for name in parameters if name not in moments["second"]):
        g = gradients[name]
        first[name] = s.momentum * moments["first"][name] + g
        # Nesterov's: where the momentum would be after this gradient once more.
        ahead[name] = g + s.momentum * first[name]
    for name, update in _orthogonal(ahead, hidden, dtype).items():
        new[name] = decayed[name] - rate * update
    return {name: new[name] for name in parameters}, {"first": first, "second": second}


def _orthogonal(ahead: dict, hidden: dict[str, int], dtype) -> dict:
    """Muon's updates at a rate of 1; matrices of one shape, or of that turned, go together."""
    parts = {
        (name, number): part
        for name, value in ahead.items()
        for number, part in enumerate(jnp.split(value, hidden[name]))
    }
    stacks: dict = {}
    for key, part in parts.items():
        stacks.setdefault(tuple(sorted(part.shape)), []).append(key)
    found = {}
    for shape, keys in stacks.items():
        tall = [parts[key].shape[0] > parts[key].shape[1] for key in keys]
        stack = jnp.stack(
            [parts[key].T if turn else parts[key] for key, turn in zip(keys, tall, strict=True)]
        )
        stack = MUON_RMS * math.sqrt(shape[1]) * _orthogonalised(stack, dtype)
        for key, update, turn in zip(keys, stack, tall, strict=True):
            found[key] = update.T if turn else update
    return {
        name: jnp.concatenate([found[name, number] for number in range(hidden[name])])
        for name in ahead
    }


def _orthogonalised(matrices, dtype):
    """Of float32 [matrices, rows, columns], rows <= columns; by Newton-Schulz iterations."""
    a, b, c = MUON_COEFFICIENTS
    norms = jnp.sqrt(jnp.sum(jnp.square(matrices), axis=(1, 2), keepdims=True))
    x = (matrices / (norms + 1e-7)).astype(dtype)
    for _ in range(MUON_ITERATIONS):
        gram = x @ x.swapaxes(1, 2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.astype(matrices.dtype)


def all_finite(parameters: dict):
    """Whether no number in them is infinite or not one, bool []."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(p)) for p in jax.tree.leaves(parameters)]))

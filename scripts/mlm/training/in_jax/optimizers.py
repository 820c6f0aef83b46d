"""AdamW and Muon as functions of flat dictionaries of weights, by the formulas and rounding of
`mlm.training.in_tensorflow`; optax has others (epsilon, another scale)."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from mlm.config.optimizers import Optimizer, updates_of
from mlm.model.architecture import Architecture
from mlm.training import muon
from mlm.training.learning_rate import decays, learning_rate


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


@dataclass(frozen=True)
class Update:
    """One update of the weights: its `number`, int32 from 0, its learning `rate`, and `hidden` of
    `hidden_parts`; products are in `dtype`."""

    settings: Optimizer
    number: Any
    rate: Any
    hidden: dict[str, int]
    dtype: Any


@dataclass(frozen=True)
class Rule:
    """How weights are updated: the names of the `moments` kept of each, and the function of
    gradients by weight, moments by name and weight, and the `Update`, which gives what to take off
    each weight and the new moments."""

    moments: tuple[str, ...]
    steps: Callable[[dict, dict, Update], tuple[dict, dict]]


def _rules(names: Iterable[str], name: str, hidden: dict[str, int]) -> dict[Rule, list[str]]:
    """The weights `names` by the rule that the optimizer `name` has for them."""
    of_hidden, of_others = updates_of(OPTIMIZERS, name, "jax")
    found: dict[Rule, list[str]] = {}
    for weight in names:
        found.setdefault(of_hidden if weight in hidden else of_others, []).append(weight)
    return found


def first_moments(parameters: dict, settings: Optimizer, hidden: dict[str, int]) -> dict:
    """Moments of 0, by their names and by weight. MlmError for an optimizer that is not here."""
    moments: dict[str, dict] = {}
    for rule, names in _rules(parameters, settings.name, hidden).items():
        for moment in rule.moments:
            zeros = {name: jnp.zeros_like(parameters[name]) for name in names}
            moments[moment] = moments.get(moment, {}) | zeros
    return moments


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
    """Weights and moments after update number `step`, int32 from 0; weights decay before. Products
    of the update are in `dtype`."""
    s = settings
    rate = learning_rate(s, step.astype(jnp.float32), jnp)
    decayed = {
        name: value - value * s.weight_decay * rate
        if s.weight_decay and decays(value.shape)
        else value
        for name, value in parameters.items()
    }
    update, steps, new = Update(s, step, rate, hidden, dtype), {}, {kind: {} for kind in moments}
    for rule, names in _rules(parameters, s.name, hidden).items():
        own = {kind: {name: moments[kind][name] for name in names} for kind in rule.moments}
        found, kept = rule.steps({name: gradients[name] for name in names}, own, update)
        steps |= found
        for kind in rule.moments:
            new[kind] |= kept[kind]
    return {name: value - steps[name] for name, value in decayed.items()}, new


def _adamw(gradients: dict, moments: dict, update: Update) -> tuple[dict, dict]:
    s, count = update.settings, (update.number + 1).astype(jnp.float32)
    one, two = (jnp.power(jnp.float32(beta), count) for beta in (s.beta_1, s.beta_2))
    scaled = update.rate * jnp.sqrt(1 - two) / (1 - one)
    steps, first, second = {}, {}, {}
    for name, g in gradients.items():
        m, v = moments["first"][name], moments["second"][name]
        first[name] = m + (g - m) * (1 - s.beta_1)
        second[name] = v + (jnp.square(g) - v) * (1 - s.beta_2)
        steps[name] = first[name] * scaled / (jnp.sqrt(second[name]) + s.epsilon)
    return steps, {"first": first, "second": second}


def _muon(gradients: dict, moments: dict, update: Update) -> tuple[dict, dict]:
    first, ahead, momentum = {}, {}, update.settings.momentum
    for name, g in gradients.items():
        first[name] = momentum * moments["first"][name] + g
        # Nesterov's: where the momentum would be after this gradient once more.
        ahead[name] = g + momentum * first[name]
    orthogonal = _orthogonal(ahead, update.hidden, update.dtype)
    return {name: update.rate * step for name, step in orthogonal.items()}, {"first": first}


_ADAMW = Rule(("first", "second"), _adamw)
#: By name, the rule for the hidden matrices and the one for all other weights.
OPTIMIZERS = {
    "adamw": (_ADAMW, _ADAMW),
    "muon": (Rule(("first",), _muon), _ADAMW),
}


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
        stack = muon.RMS * math.sqrt(shape[1]) * _orthogonalised(stack, dtype)
        for key, update, turn in zip(keys, stack, tall, strict=True):
            found[key] = update.T if turn else update
    return {
        name: jnp.concatenate([found[name, number] for number in range(hidden[name])])
        for name in ahead
    }


def _orthogonalised(matrices, dtype):
    """Of float32 [matrices, rows, columns], rows <= columns; by Newton-Schulz iterations."""
    a, b, c = muon.COEFFICIENTS
    norms = jnp.sqrt(jnp.sum(jnp.square(matrices), axis=(1, 2), keepdims=True))
    x = (matrices / (norms + 1e-7)).astype(dtype)
    for _ in range(muon.ITERATIONS):
        gram = x @ x.swapaxes(1, 2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.astype(matrices.dtype)


def all_finite(parameters: dict):
    """Whether no number in them is infinite or not one, bool []."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(p)) for p in jax.tree.leaves(parameters)]))

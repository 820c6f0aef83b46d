"""AdamW, Muon and the schedule of the learning rate, for every framework.

AdamW is that of Loshchilov and Hutter (2019). Muon is that of Jordan et al., 2024
(https://kellerjordan.github.io/posts/muon/), with the scale and decay of Liu et al., 2025 (arXiv
2502.16982), so that it shares AdamW's learning rate.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm.config.pretraining import Optimizer
from mlm.model.architecture import Architecture

#: Jordan's quintic: so many iterations bring singular values from 0.01 to 1 to between 0.7 and 1.2.
_COEFFICIENTS, _ITERATIONS = (3.4445, -4.7750, 2.0315), 5
#: Root mean square of Muon's update at a rate of 1, about AdamW's (Liu et al., section 2.2).
_RMS = 0.2
Weights = dict[str, Any]


def learning_rate(optimizer: Optimizer, step, xp: Any):
    """Return the rate after `step` updates: linear warmup, a plateau if any, decay to a share
    of the peak: linear, half a cosine wave, or 1 - sqrt (Hägele et al., 2024, arXiv 2405.18392).

    `step` is float32 of any shape, from 0, and `xp` NumPy, JAX or TensorFlow.
    """
    s, warmup, decay = optimizer, optimizer.warmup_steps or 0, optimizer.decay_steps or 0
    progress = (step - float((s.schedule_steps or 0) - decay)) / float(max(decay, 1))
    progress = xp.minimum(xp.maximum(progress, 0.0), 1.0)
    if s.decay == "cosine":
        falling = 0.5 * (1.0 + xp.cos(math.pi * progress))
    elif s.decay == "1-sqrt":
        falling = 1.0 - xp.sqrt(progress)
    else:
        falling = 1.0 - progress
    falling = s.min_lr_ratio + (1.0 - s.min_lr_ratio) * falling
    return s.learning_rate * xp.where(step < warmup, (step + 1.0) / float(max(warmup, 1)), falling)


def rate_of_step(optimizer: Optimizer, step: int) -> float:
    """The learning rate of update number `step`, from 1."""
    return float(learning_rate(optimizer, np.float32(step - 1), np))


@dataclass(frozen=True)
class Update:
    """One update of the weights: its learning `rate`, the `count` of updates with this one,
    float32, and Muon's matrices, `hidden` (see `hidden_parts`); products are in `dtype`."""

    ops: Any
    settings: Optimizer
    rate: Any
    count: Any
    hidden: dict[str, int]
    dtype: str

    def decayed(self, value) -> Any:
        """Return `value` after weight decay; biases and norms have none, as in BERT's release."""
        decay = self.settings.weight_decay
        if not decay or len(value.shape) == 1:
            return value
        return self.ops.minus(value, value * decay * self.rate)


@dataclass(frozen=True)
class Rule:
    """How weights are updated: the names of the `moments` of each weight, and the function
    (weights, gradients, moments, update) -> (weights, moments) of all weights of this rule."""

    moments: tuple[str, ...]
    apply: Callable[[Weights, Weights, dict[str, Weights], Update], tuple[Weights, dict]]


def hidden_parts(architecture: Architecture) -> dict[str, int]:
    """Return the matrices that Muon updates (all but embeddings), by name, and of how many each
    consists, one below the other: query, key and value, or a gated layer's two."""
    a, names, parts = architecture, architecture.names, {}
    if a.projects_embeddings:
        parts[f"{names.embedding_projection}.weight"] = 1
    for layer in range(a.layers):
        prefix = a.layer_prefix(layer)
        for name in names.projections:
            parts[f"{prefix}{name}.weight"] = 3 // len(names.projections)
        parts[f"{prefix}{names.attended}.weight"] = 1
        parts[f"{prefix}{names.inner}.weight"] = 2 if a.gated else 1
        parts[f"{prefix}{names.output}.weight"] = 1
    return parts | {f"{names.head_dense}.weight": 1}


def _rules(names: Iterable[str], optimizer: str, hidden: dict[str, int]) -> dict[Rule, list[str]]:
    """Group the weights `names` by the rule that `optimizer` has for them."""
    rule_of_hidden, rule_of_others = OPTIMIZERS[optimizer]
    rules: dict[Rule, list[str]] = {}
    for name in names:
        rules.setdefault(rule_of_hidden if name in hidden else rule_of_others, []).append(name)
    return rules


def first_moments(
    zeros_like: Callable, parameters: Weights, settings: Optimizer, hidden: dict[str, int]
) -> dict[str, Weights]:
    """Return the moments before the first update, zeros, by moment and weight."""
    moments: dict[str, Weights] = {}
    for rule, names in _rules(parameters, settings.name, hidden).items():
        for moment in rule.moments:
            zeros = {name: zeros_like(parameters[name]) for name in names}
            moments[moment] = moments.get(moment, {}) | zeros
    return moments


def clipped(ops, gradients: Weights, max_norm: float | None) -> Weights:
    """`gradients` scaled down to the global norm `max_norm` if theirs is larger."""
    if max_norm is None:
        return gradients
    norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients.values()))
    scale = max_norm * ops.minimum(1.0 / norm, 1.0 / max_norm)
    return {name: g * scale for name, g in gradients.items()}


def updated(
    ops,
    parameters: Weights,
    moments: dict[str, Weights],
    gradients: Weights,
    step,
    settings: Optimizer,
    hidden: dict[str, int],
    dtype: str = "float32",
) -> tuple[Weights, dict[str, Weights]]:
    """Return weights and moments after update number `step`, int32 from 0. Weights decay first."""
    rate = learning_rate(settings, ops.cast(step, "float32"), ops)
    update = Update(ops, settings, rate, ops.cast(step + 1, "float32"), hidden, dtype)
    new_parameters, new_moments = {}, {name: {} for name in moments}
    for rule, names in _rules(parameters, settings.name, hidden).items():
        weights, grads = ({name: x[name] for name in names} for x in (parameters, gradients))
        of_rule = {kind: {name: moments[kind][name] for name in names} for kind in rule.moments}
        weights, of_rule = rule.apply(weights, grads, of_rule, update)
        new_parameters |= weights
        for moment in rule.moments:
            new_moments[moment] |= of_rule[moment]
    return {name: new_parameters[name] for name in parameters}, new_moments


def _adamw(weights: Weights, gradients: Weights, moments: dict, update: Update):
    ops, s = update.ops, update.settings
    powers = [ops.power(ops.float32(beta), update.count) for beta in (s.beta_1, s.beta_2)]
    new, first, second = {}, {}, {}
    for name, value in weights.items():
        value = update.decayed(value)
        of_weight = gradients[name], moments["first"][name], moments["second"][name]
        how = update.rate, (s.beta_1, s.beta_2), powers, s.epsilon
        new[name], first[name], second[name] = ops.adam(value, *of_weight, *how)
    return new, {"first": first, "second": second}


def _muon(weights: Weights, gradients: Weights, moments: dict, update: Update):
    first, ahead, momentum = {}, {}, update.settings.momentum
    for name, grad in gradients.items():
        first[name] = momentum * moments["first"][name] + grad
        # Nesterov's: where the momentum would be after this gradient once more.
        ahead[name] = grad + momentum * first[name]
    new, orthogonal = {}, _orthogonal(update.ops, ahead, update.hidden, update.dtype)
    for name, value in weights.items():
        new[name] = update.ops.minus(update.decayed(value), update.rate * orthogonal[name])
    return new, {"first": first}


_ADAMW = Rule(("first", "second"), _adamw)
#: By name, the rule for the hidden matrices and the one for all other weights.
OPTIMIZERS = {
    "adamw": (_ADAMW, _ADAMW),
    "muon": (Rule(("first",), _muon), _ADAMW),
}


def _orthogonal(ops, ahead: Weights, hidden: dict[str, int], dtype: str) -> Weights:
    """Return Muon's updates at a rate of 1; matrices of a shape, or its transpose, are stacked."""
    parts = {
        (name, number): part
        for name, value in ahead.items()
        for number, part in enumerate(ops.split(value, hidden[name]))
    }
    stacks: dict[tuple, list] = {}
    for key, part in parts.items():
        stacks.setdefault(tuple(sorted(part.shape)), []).append(key)
    updates = {}
    for shape, keys in stacks.items():
        tall = {key: parts[key].shape[0] > parts[key].shape[1] for key in keys}
        stack = ops.stack([ops.transpose(parts[k]) if tall[k] else parts[k] for k in keys])
        stack = _RMS * math.sqrt(shape[1]) * _orthogonalised(ops, stack, dtype)
        for index, key in enumerate(keys):
            updates[key] = ops.transpose(stack[index]) if tall[key] else stack[index]
    return {
        name: ops.concatenate([updates[name, number] for number in range(hidden[name])], axis=0)
        for name in ahead
    }


def _orthogonalised(ops, matrices, dtype: str):
    """Orthogonalise float32 [matrices, rows, columns], rows <= columns, by Newton-Schulz."""
    a, b, c = _COEFFICIENTS
    norms = ops.sqrt(ops.sum(ops.square(matrices), axis=(1, 2)))[:, None, None]
    x = ops.cast(matrices / (norms + 1e-7), dtype)
    for _ in range(_ITERATIONS):
        gram = ops.matmul(x, ops.swapaxes(x, 1, 2))
        x = a * x + ops.matmul(b * gram + c * ops.matmul(gram, gram), x)
    return ops.cast(x, "float32")

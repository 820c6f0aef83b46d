"""Fine-tuning of a sequence model: one jitted step over a mesh of data-parallel devices.

Batches are divided over the mesh by their first axis, parameters are whole on every device, and
XLA adds the all-reduces. No example is dropped: the last batch is filled with rows of weight 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlm.training.in_jax.framework import shardings


@dataclass(frozen=True)
class Tokenised:
    """Passages as the model reads them: int32 [examples, length] each.

    `truncated` passages were longer than `length`.
    """

    input_ids: np.ndarray
    attention_mask: np.ndarray
    truncated: int


@dataclass(frozen=True)
class Schedule:
    """How long and how fast is learned; `peak` falls linearly to 0 at the last step."""

    peak: float
    epochs: int
    steps_per_epoch: int
    warmup_ratio: float

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True)
class AdamW:
    """Decoupled weight decay (Loshchilov and Hutter, 2019); none on biases and norms."""

    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay: float
    max_grad_norm: float | None


def training_seed(seed: int, fold: int, number: int) -> int:
    """The seed of training `number` of a fold: an independent one for each (31 bits)."""
    return int(np.random.SeedSequence([seed, fold, number]).generate_state(1)[0]) >> 1


def epoch_order(examples: int, seed: int, fold: int, epoch: int) -> np.ndarray:
    """The order of an epoch's examples: a function of (seed, fold, epoch) alone."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, fold, epoch])))
    return generator.permutation(examples)


def batches(order: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows int64 [size] and weights float32 [size]; rows of weight 0 fill the last batch."""
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        weights = np.zeros(size, np.float32)
        weights[: len(rows)] = 1
        yield np.concatenate([rows, np.full(size - len(rows), order[0])]), weights


def optimizer_of(adamw: AdamW, schedule: Schedule):
    """The optax optimizer: AdamW under a linear decay to 0, after a linear warmup if any."""
    import jax
    import optax

    warmup = int(schedule.warmup_ratio * schedule.steps)
    rate = optax.linear_schedule(schedule.peak, 0.0, max(1, schedule.steps - warmup))
    if warmup:
        rate = optax.join_schedules(
            [optax.linear_schedule(0.0, schedule.peak, warmup), rate], [warmup]
        )

    def decayed(parameters):
        return jax.tree.map(lambda parameter: parameter.ndim > 1, parameters)

    steps = [optax.clip_by_global_norm(adamw.max_grad_norm)] if adamw.max_grad_norm else []
    steps.append(
        optax.adamw(
            rate,
            b1=adamw.beta_1,
            b2=adamw.beta_2,
            eps=adamw.epsilon,
            weight_decay=adamw.weight_decay,
            mask=decayed,
        )
    )
    return optax.chain(*steps)


def losses(logits, targets):
    """The loss of each example, float32 [batch]: squared error for one output [batch, 1],
    cross-entropy in nats for several [batch, classes]."""
    import jax.numpy as jnp
    import optax

    if logits.shape[-1] == 1:
        return jnp.square(logits[:, 0] - targets)
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets.astype(jnp.int32))


def train_step(model, optimizer):
    """The function (state, batch) -> (state, loss) that one step of `model`, a SequenceModel, runs,
    not yet jitted.

    `state` has params, opt_state and step; `batch` input_ids and attention_mask int32
    [batch, length], targets and weights float32 [batch]. The loss is the weighted mean.
    """
    import jax
    import jax.numpy as jnp
    import optax

    def step(state, batch):
        key = jax.random.fold_in(jax.random.key(state["seed"]), state["step"])

        def mean_loss(parameters):
            logits = model.logits(parameters, batch["input_ids"], batch["attention_mask"], key)
            weights = batch["weights"]
            total = jnp.sum(losses(logits, batch["targets"]) * weights)
            return total / jnp.maximum(jnp.sum(weights), 1)

        loss, gradients = jax.value_and_grad(mean_loss)(state["params"])
        updates, opt_state = optimizer.update(gradients, state["opt_state"], state["params"])
        parameters = optax.apply_updates(state["params"], updates)
        new = {"params": parameters, "opt_state": opt_state, "step": state["step"] + 1}
        return state | new, loss

    return step


def predict_step(model):
    """The function (params, batch) -> logits float32 [batch, outputs], not yet jitted."""

    def predict(parameters, batch):
        return model.logits(parameters, batch["input_ids"], batch["attention_mask"])

    return predict


def abstract_batch(size: int, length: int) -> dict:
    """Shapes and types of a training batch, for compiling ahead."""
    import jax
    import jax.numpy as jnp

    return {
        "input_ids": jax.ShapeDtypeStruct((size, length), jnp.int32),
        "attention_mask": jax.ShapeDtypeStruct((size, length), jnp.int32),
        "targets": jax.ShapeDtypeStruct((size,), jnp.float32),
        "weights": jax.ShapeDtypeStruct((size,), jnp.float32),
    }


def first_state(parameters, optimizer, seed: int) -> dict:
    """The state before the first step."""
    import jax.numpy as jnp

    return {
        "params": parameters,
        "opt_state": optimizer.init(parameters),
        "step": jnp.zeros((), jnp.int32),
        "seed": jnp.asarray(seed, jnp.uint32),
    }


def compiled(mesh, step, predict, state: dict, batch: dict):
    """The two functions compiled for `mesh`, as `lowered` takes them."""
    return tuple(function.compile() for function in lowered(mesh, step, predict, state, batch))


def lowered(mesh, step, predict, state: dict, batch: dict):
    """The two functions lowered for `mesh`: parameters whole, batches divided by rows.

    `state` and `batch` may hold arrays or their shapes.
    """
    import jax

    whole, divided = shardings(mesh)
    asked = {k: batch[k] for k in ("input_ids", "attention_mask")}
    trained = jax.jit(
        step, in_shardings=(whole, divided), out_shardings=(whole, whole), donate_argnums=0
    ).lower(state, batch)
    predicted = jax.jit(predict, in_shardings=(whole, divided), out_shardings=whole).lower(
        state["params"], asked
    )
    return trained, predicted

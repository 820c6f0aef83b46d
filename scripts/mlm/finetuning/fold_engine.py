"""The computation of one fold: its examples as arrays, and the jitted steps over a mesh of devices.

Batches are divided over the mesh by their first axis, parameters are whole on every device, and
XLA adds the all-reduces. No example is dropped: the last batch is filled with rows of weight 0.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.finetuning.examples import classes_of, read_examples
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder
from mlm.training.in_jax.framework import data_mesh, prepare_jax, shardings


class Fold:
    """A fold ready to train: its data, and the two functions compiled for the mesh."""

    def __init__(
        self,
        number: int,
        section: Finetune,
        accelerator: Accelerator,
        examples: str | Path,
        model: str | Path,
    ):
        kind, virtual = accelerator.kind, accelerator.virtual_replicas
        # Before JAX is imported, which reads the environment then.
        prepare_jax(kind, section.cpu_threads, virtual)
        import jax.numpy as jnp

        from mlm.finetuning.sequence_model import read_sequence_model

        self.mesh = data_mesh(kind, virtual)
        self.platform = self.mesh.devices.flat[0].platform
        half = accelerator.precision == "bfloat16" or (
            accelerator.precision == "auto" and self.platform == "tpu"
        )
        self.precision = "bfloat16" if half else "float32"
        self.number, self.section, self._model_directory = number, section, model
        self.examples, folds = read_examples(examples)
        held_out = np.array(folds) == number
        if not held_out.any() or held_out.all():
            raise MlmError(
                f"{examples}: fold {number} of {section.folds} has {held_out.sum()} of "
                f"{len(folds)} examples; each fold needs some to test and some to learn from. "
                "Give more data, or fewer folds"
            )
        self.train, self.test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.classes = classes_of(self.examples, section.task)
        targets = [e.target for e in self.examples]
        values = map(self.classes.index, targets) if self.classes else map(float, targets)
        self.targets = np.array(list(values), np.float32)
        self.model = read_sequence_model(
            model,
            len(self.classes) or 1,
            section.dropout,
            jnp.dtype(self.precision),
            self.classes,
        )
        self.input_ids, self.attention_mask, self.truncated = tokenised(
            Encoder.load(Path(model) / "tokenizer.json"),
            [e.excerpt for e in self.examples],
            self.model.length(section.max_length),
        )
        self.batch_size = section.per_device_batch_size * self.mesh.devices.size
        steps = section.epochs * -(-len(self.train) // self.batch_size)
        self._optimizer = optimizer_of(section, steps)

    def begin(self, start: str, seed: int) -> None:
        """Set `state` to that before the first step, its random numbers drawn by `seed`."""
        if start == "pretrained":
            parameters = self.model.pretrained_parameters(self._model_directory, seed)
        else:
            parameters = self.model.random_parameters(seed)
        self.state = first_state(parameters, self._optimizer, seed)

    def compile(self) -> float:
        """Compile for the mesh, after `begin`; the seconds that it took."""
        began = time.monotonic()
        self._step, self._predict = compiled(
            self.mesh,
            train_step(self.model, self._optimizer),
            predict_step(self.model),
            self.state,
            abstract_batch(self.batch_size, self.input_ids.shape[1]),
        )
        return time.monotonic() - began

    def epoch(self, order: np.ndarray) -> float:
        """Learn from the examples once, in `order`; the mean loss over them."""
        found, counts = [], []
        several = self.mesh.devices.size > 1 and self.platform == "cpu"
        for rows, weights in batches(self.train[order], self.batch_size):
            batch = self._batch(rows) | {"targets": self.targets[rows], "weights": weights}
            self.state, loss = self._step(self.state, batch)
            if several:
                # Steps in flight on virtual devices can wait for each other for ever.
                loss.block_until_ready()
            found.append(loss)
            counts.append(weights.sum())
        return float(np.average(np.array(found, np.float64), weights=counts))

    def predictions(self) -> np.ndarray:
        """Logits of the held-out examples: float32 [examples, outputs]."""
        parts = [
            np.asarray(self._predict(self.state["params"], self._batch(rows)))[weights > 0]
            for rows, weights in batches(self.test, self.batch_size)
        ]
        return np.concatenate(parts)

    def _batch(self, rows: np.ndarray) -> dict:
        return {
            "input_ids": self.input_ids[rows],
            "attention_mask": self.attention_mask[rows],
        }


def tokenised(
    encoder: Encoder, excerpts: list[str], length: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """`input_ids` and `attention_mask` of the passages, int32 [passages, length] each, and how many
    were truncated; these keep their last token, [SEP]."""
    ids = np.full((len(excerpts), length), encoder.special_ids.pad, np.int32)
    mask = np.zeros((len(excerpts), length), np.int32)
    truncated = 0
    for i, tokens in enumerate(encoder.encode(excerpts)):
        if len(tokens) > length:
            truncated += 1
            tokens = [*tokens[: length - 1], tokens[-1]]
        ids[i, : len(tokens)] = tokens
        mask[i, : len(tokens)] = 1
    return ids, mask, truncated


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


def loss_and_score(task: str, logits: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """The loss as trained (squared error, or nats) and the score as reported (RMSE, or accuracy) of
    `logits` [examples, outputs] against `targets` [examples]."""
    logits, targets = np.asarray(logits, np.float64), np.asarray(targets, np.float64)
    if task == "regression":
        squared = float(np.mean((logits[:, 0] - targets) ** 2))
        return squared, squared**0.5
    classes = targets.astype(np.int64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    surprise = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(classes)), classes]
    return float(surprise.mean()), float(np.mean(logits.argmax(axis=1) == classes))


def optimizer_of(section: Finetune, steps: int):
    """The optax optimizer: AdamW (Loshchilov and Hutter, 2019) under a linear decay to 0 over
    `steps`, after a linear warmup if any; biases and norms do not decay."""
    import jax
    import optax

    adamw, peak = section.optimizer, section.learning_rate
    warmup = int(section.warmup_ratio * steps)
    rate = optax.linear_schedule(peak, 0.0, max(1, steps - warmup))
    if warmup:
        rate = optax.join_schedules([optax.linear_schedule(0.0, peak, warmup), rate], [warmup])

    def decayed(parameters):
        return jax.tree.map(lambda parameter: parameter.ndim > 1, parameters)

    updates = [optax.clip_by_global_norm(adamw.max_grad_norm)] if adamw.max_grad_norm else []
    updates.append(
        optax.adamw(
            rate,
            b1=adamw.beta_1,
            b2=adamw.beta_2,
            eps=adamw.epsilon,
            weight_decay=adamw.weight_decay,
            mask=decayed,
        )
    )
    return optax.chain(*updates)


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

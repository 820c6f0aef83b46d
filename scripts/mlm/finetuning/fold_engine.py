"""The computation of one fold: its examples as arrays, and the jitted steps over a mesh of devices.

Batches are divided over the mesh by their first axis, parameters are whole on every device, and
XLA adds the all-reduces. No example is dropped: the last batch is filled with rows of weight 0.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Optimizer, OptimizerSection
from mlm.finetuning.sequence_model import sequence_model_of
from mlm.finetuning.tables import Example, classes_of, read_rows
from mlm.foundations.errors import MlmError
from mlm.model import jax_ops as ops
from mlm.model.checkpoints import Checkpoint
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pretrained import load_pretrained
from mlm.training.in_jax.devices import open_mesh, shardings
from mlm.training.optimizers import clipped, first_moments, updated


class Fold:
    """A fold and, after `begin`, one training of it: what `mlm.training.loop` advances. `model` is
    the directory of a run's model, or what `finetune.also` names if it is `published`."""

    def __init__(
        self,
        number: int,
        section: Finetune,
        accelerator: Accelerator,
        examples: str | Path,
        model: str | Path,
        published: bool = False,
    ):
        self.devices = open_mesh(accelerator)
        self.number = number
        self.checkpoint = Checkpoint.read(str(model), "finetune.also" if published else "results")
        self.examples = read_rows(examples, Example)
        held_out = np.array([e.fold for e in self.examples]) == number
        self.train, self.test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.classes = classes_of(self.examples, section.task)
        value_of = self.classes.index if self.classes else float
        self.targets = np.array([value_of(e.target) for e in self.examples], np.float32)
        how = section.dropout, self.devices.precision
        self.model = sequence_model_of(self.checkpoint, self.classes, *how)
        encoder, longest = encoder_of(self.checkpoint, published)
        length = self.model.length(min(section.max_length, longest or section.max_length))
        excerpts = [e.excerpt for e in self.examples]
        self.input_ids, self.attention_mask, self.truncated = tokenised(encoder, excerpts, length)
        self.batch_size = section.per_device_batch_size * self.devices.replicas
        self.steps_per_epoch = -(-len(self.train) // self.batch_size)
        self._optimizer = adamw(section, section.epochs * self.steps_per_epoch)
        self._compiled = None

    def begin(self, start: str, seed: int) -> None:
        """Set the weights to those before the first step: random ones if `start` says so."""
        parameters = self.model.parameters(seed, None if start == "random" else self.checkpoint)
        self.state, self.step, self._seed = first_state(parameters, self._optimizer, seed), 0, seed
        self._epoch, self._batches = -1, []
        if self._compiled is None:
            size = (self.batch_size, self.input_ids.shape[1])
            traced = traced_fold(
                self.devices.strategy, self.model, self._optimizer, self.state, *size
            )
            self._compiled = [function.lower().compile() for function in traced]

    def advance(self, steps: int) -> dict[str, float]:
        """Make `steps` updates: their examples' summed losses, their number, and the seconds."""
        began, losses, counts = time.monotonic(), [], []
        for step in range(self.step, self.step + steps):
            epoch, place = divmod(step, self.steps_per_epoch)
            if epoch != self._epoch:
                order = epoch_order(len(self.train), self._seed, self.number, epoch)
                self._epoch = epoch
                self._batches = list(batches(self.train[order], self.batch_size))
            rows, weights = self._batches[place]
            batch = self._of(rows) | {"targets": self.targets[rows], "weights": weights}
            self.state, loss = self._compiled[0](self.state, batch)
            if self.devices.replicas > 1 and self.devices.kind == "cpu":
                # Steps in flight on virtual devices can wait for each other for ever.
                loss.block_until_ready()
            losses.append(loss)
            counts.append(float(weights.sum()))
        self.step += steps
        loss = float(np.dot(np.array(losses, np.float64), counts))
        seconds = time.monotonic() - began
        return {"loss": loss, "examples": sum(counts), "seconds": seconds}

    def predictions(self) -> np.ndarray:
        """Logits of the held-out examples: float32 [examples, outputs]."""
        parts = [
            np.asarray(self._compiled[1](self.state["parameters"], self._of(rows)))[weights > 0]
            for rows, weights in batches(self.test, self.batch_size)
        ]
        return np.concatenate(parts)

    def _of(self, rows: np.ndarray) -> dict:
        return {"input_ids": self.input_ids[rows], "attention_mask": self.attention_mask[rows]}

    def write(self, place: str) -> None:
        """Write the state below the directory `place`."""
        leaves = jax.tree_util.tree_leaves_with_path(self.state)
        arrays = {jax.tree_util.keystr(path): np.asarray(value) for path, value in leaves}
        save_file(arrays, f"{place}/state.safetensors")

    def read(self, place: str) -> None:
        """Take the state from there."""
        stored = load_file(f"{place}/state.safetensors")
        # Copied: the host's own memory must not be donated.
        self.state = jax.tree_util.tree_map_with_path(
            lambda path, _: jnp.array(stored[jax.tree_util.keystr(path)]), self.state
        )
        self.step = int(self.state["step"])


def encoder_of(checkpoint: Checkpoint, published: bool) -> tuple[Encoder, int | None]:
    """Its tokenizer, and the longest input that this was made for (None: unknown); MlmError if it
    has none, or ids that the model lacks."""
    if not checkpoint.tokenizer:
        raise MlmError(f"finetune.also: {checkpoint.place} has no tokenizer.json")
    if not published:
        return Encoder.load(checkpoint.tokenizer), None
    *content, longest = load_pretrained(str(checkpoint.tokenizer.parent), None, "finetune.also")
    encoder, rows = Encoder(*content), checkpoint.fields.get("vocab_size", 0)
    if encoder.vocabulary_size > rows:
        raise MlmError(
            f"finetune.also: {checkpoint.place} has {rows:,} word embeddings (vocab_size), but its "
            f"tokenizer.json has {encoder.vocabulary_size:,} ids. Both must be of one model"
        )
    return encoder, longest


def tokenised(encoder: Encoder, excerpts: list[str], length: int) -> tuple:
    """`input_ids` and `attention_mask`, int32 [passages, length], and how many were truncated;
    these keep their last token, [SEP]."""
    ids = np.full((len(excerpts), length), encoder.special_ids.pad, np.int32)
    encoded = encoder.encode(excerpts)
    lengths = np.array([len(tokens) for tokens in encoded])
    for row, tokens in zip(ids, encoded, strict=True):
        kept = tokens if len(tokens) <= length else [*tokens[: length - 1], tokens[-1]]
        row[: len(kept)] = kept
    mask = np.int32(np.arange(length) < lengths[:, None])
    return ids, mask, int(np.count_nonzero(lengths > length))


def epoch_order(examples: int, seed: int, fold: int, epoch: int) -> np.ndarray:
    """The order of an epoch's examples: a function of (seed, fold, epoch) alone."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, fold, epoch])))
    return generator.permutation(examples)


def batches(order: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows int64 [size] and weights float32 [size]; rows of weight 0 fill the last batch."""
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        weights = (np.arange(size) < len(rows)).astype(np.float32)
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


def adamw(section: Finetune, steps: int) -> Optimizer:
    """Pretraining's AdamW as section `finetune` sets it, with a linear warmup and decay to 0 over
    `steps`."""
    given = {name: getattr(section, name) for name in ("learning_rate", "warmup_ratio")}
    given |= section.optimizer.model_dump()
    betas = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-8}
    return OptimizerSection(name="adamw", **given, **betas).scheduled(steps)


def first_state(parameters: dict, optimizer: Optimizer, seed: int) -> dict:
    """The state before the first step."""
    return {
        "parameters": parameters,
        "moments": first_moments(jnp.zeros_like, parameters, optimizer, {}),
        "step": jnp.zeros((), jnp.int32),
        "seed": jnp.asarray(seed, jnp.uint32),
    }


def traced_fold(mesh, model, optimizer: Optimizer, state: dict, size: int, length: int):
    """The step (state, batch) -> (state, loss) and the prediction (parameters, batch) -> logits of
    `model`, a SequenceModel, traced for `mesh`. `state` is like that of `first_state`. A batch has
    `size` rows of `length` tokens: input_ids and attention_mask int32 [batch, length], targets and
    weights float32 [batch]."""

    def logits_of(parameters, batch, key=None):
        return model.logits(parameters, batch["input_ids"], batch["attention_mask"], key)

    def mean_loss(parameters, batch, key):
        each = losses(logits_of(parameters, batch, key), batch["targets"])
        return jnp.sum(each * batch["weights"]) / jnp.maximum(jnp.sum(batch["weights"]), 1)

    def step(state, batch):
        key = jax.random.fold_in(jax.random.key(state["seed"]), state["step"])
        loss, gradients = jax.value_and_grad(mean_loss)(state["parameters"], batch, key)
        gradients = clipped(ops, gradients, optimizer.max_grad_norm)
        trained = state["parameters"], state["moments"], gradients, state["step"]
        parameters, moments = updated(ops, *trained, optimizer, {})
        new = {"parameters": parameters, "moments": moments, "step": state["step"] + 1}
        return state | new, loss

    whole, divided = shardings(mesh)
    tokens = jax.ShapeDtypeStruct((size, length), jnp.int32)
    numbers = jax.ShapeDtypeStruct((size,), jnp.float32)
    asked = {"input_ids": tokens, "attention_mask": tokens}
    on_mesh = partial(jax.jit, in_shardings=(whole, divided))
    trained = on_mesh(step, out_shardings=(whole, whole), donate_argnums=0)
    predicted = on_mesh(logits_of, out_shardings=whole)
    batch = asked | {"targets": numbers, "weights": numbers}
    return trained.trace(state, batch), predicted.trace(state["parameters"], asked)


def losses(logits, targets):
    """The loss of each example, float32 [batch]: squared error for one output, cross-entropy in
    nats for several."""
    if logits.shape[-1] == 1:
        return jnp.square(logits[:, 0] - targets)
    chosen = targets.astype(jnp.int32)[:, None]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), chosen, axis=1)[:, 0]

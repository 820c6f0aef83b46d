"""A fold of a fine-tuning as a task for the training loop: its examples, batches and engine."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from scipy.special import log_softmax

from mlm.config.finetune import Finetune
from mlm.config.pretraining import Optimizer
from mlm.finetuning.artefacts import Example, Predictions
from mlm.finetuning.encoded_examples import Arrays, EncodedTexts
from mlm.finetuning.finetuning_metrics import Metric, metric_of
from mlm.finetuning.sequence_model import SequenceModel
from mlm.model.model_files import Checkpoint
from mlm.model.network import Parameters
from mlm.samples.sample_order import SampleOrder
from mlm.training.devices import Devices
from mlm.training.engine import Batches
from mlm.training.in_jax.devices import shardings
from mlm.training.in_jax.engine import MeshEngine
from mlm.training.train_step import Task

#: Arrays that the network reads.
_READ = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Fold(Task):
    """A training of a fold: the rows `train` and `test` of the `examples`, with their `texts`, from
    the weights of `start` (None: random ones)."""

    name: str
    seed: int
    settings: Finetune
    learning_rate: float
    model: SequenceModel
    start: Checkpoint | None
    examples: list[Example]
    texts: EncodedTexts
    train: np.ndarray
    test: np.ndarray
    batch_size: int
    section: str = "finetune"

    @property
    def metric(self) -> Metric:
        return metric_of(self.settings.task, self.model.classes)

    @property
    def optimizer(self) -> Optimizer:
        """Pretraining's AdamW as section `finetune` sets it, with a linear decay to 0."""
        return Optimizer(
            name="adamw",
            learning_rate=self.learning_rate,
            warmup_steps=self.settings.warmup_ratio,
            weight_decay=self.settings.optimizer.weight_decay,
            max_grad_norm=self.settings.optimizer.max_grad_norm,
            epsilon=1e-8,
        ).scheduled(self.steps)

    @property
    def steps(self) -> int:
        return math.ceil(self.settings.epochs * len(self.train) / self.batch_size)

    @property
    def log_every(self) -> int:
        """Steps of an epoch, after which the held-out examples are scored."""
        return math.ceil(len(self.train) / self.batch_size)

    @property
    def validate_every(self) -> int:
        return self.log_every

    @property
    def length(self) -> int:
        """Tokens of the longest text, to which all rows are padded."""
        return self.texts.arrays["input_ids"].shape[-1]

    def epoch(self, step: int) -> float:
        return step * self.batch_size / len(self.train)

    def tokens(self, step: int) -> int:
        return step * self.batch_size * self.length

    def computation(self, devices: Devices) -> SequenceModel:
        return self.model

    def starting_weights(self) -> tuple[dict[str, np.ndarray], None]:
        return self.model.parameters(self.seed, self.start), None

    def batches(self, step: int) -> Iterator[Arrays]:
        """Yield the batches after `step` updates, in the order of a pretraining."""
        order = SampleOrder((len(self.train),), self.seed, len(self.train))
        for first in range(step * self.batch_size, self.steps * self.batch_size, self.batch_size):
            _, indices = order.samples(first + np.arange(self.batch_size))
            rows = self.train[indices]
            yield {name: array[rows] for name, array in self.texts.arrays.items()}

    def predictions(self, outputs: np.ndarray) -> Predictions:
        """The predictions for the held-out examples by their `outputs`."""
        texts = self.texts.predictions(outputs, self.model.classes, self.test.tolist())
        return dict(zip((self.examples[i].id for i in self.test), texts, strict=True))


class FoldEngine(MeshEngine):
    """The training of a fold."""

    def __init__(self, fold: Fold, devices: Devices):
        self.fold = fold
        super().__init__(fold, devices)
        self._update = self._compiled(None, fold.seed)
        self._logits = on_devices(fold.model, devices.strategy)

    def advance(self, steps: int) -> dict[str, float]:
        sums = super().advance(steps)
        if self.fold.settings.task == "regression":
            del sums["accuracy"]
        return sums

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights now, with a head whose outputs are in the unit of the targets."""
        weights, head, texts = super().weights(), self.fold.model.head.output, self.fold.texts
        weights[f"{head}.weight"] *= texts.deviation
        weights[f"{head}.bias"] = weights[f"{head}.bias"] * texts.deviation + texts.mean
        return weights

    def _training_batches(self) -> Batches:
        for step, batch in enumerate(self.fold.batches(self.step), start=self.step):
            yield self._update, batch | self._random_inputs(step)

    def outputs(self) -> np.ndarray:
        """Return the logits of the held-out examples: float32 [examples, outputs]."""
        rows = {name: self.fold.texts.arrays[name][self.fold.test] for name in _READ}
        return self._logits(self._state["parameters"], rows, self.fold.batch_size)

    def validate(self) -> tuple[float | None, float | None]:
        """Return loss and score of the held-out examples, None without any."""
        fold = self.fold
        if not len(fold.test):
            return None, None
        outputs, arrays = self.outputs(), fold.texts.arrays
        loss = mean_loss(outputs, arrays["labels"][fold.test], arrays["weights"][fold.test])
        held_out = [fold.examples[i] for i in fold.test]
        return loss, fold.metric.of(held_out, fold.predictions(outputs))


def on_devices(model: SequenceModel, mesh: Any) -> Callable[[Parameters, Arrays, int], np.ndarray]:
    """The function of weights, arrays of rows, and the size of a batch that gives their logits."""
    whole, divided = shardings(mesh)
    logits = jax.jit(model.logits, in_shardings=(whole, divided, divided), out_shardings=whole)

    def of_rows(weights: Parameters, arrays: Arrays, size: int) -> np.ndarray:
        count, parts = len(arrays["input_ids"]), []
        for first in range(0, count, size):
            # The last batch is filled up, so that all have one shape.
            rows = np.arange(first, first + size) % count
            parts.append(np.asarray(logits(weights, *(arrays[name][rows] for name in _READ))))
        return np.concatenate(parts)[:count]

    return of_rows


def mean_loss(outputs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The mean loss as trained (squared error, or nats), weighted, of outputs [..., outputs]."""
    outputs = outputs.astype(np.float64)
    if labels.dtype == np.float32:
        losses = (outputs[..., 0] - labels) ** 2
    else:
        losses = -np.take_along_axis(log_softmax(outputs, axis=-1), labels[..., None], -1)[..., 0]
    return float(np.average(losses, weights=weights))

"""A fold of a fine-tuning as a task for the training loop: its examples, batches and engine."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np
from scipy.special import log_softmax

from mlm.config.finetune import Finetune
from mlm.config.pretraining import Optimizer, OptimizerSection
from mlm.finetuning.artefacts import Example
from mlm.finetuning.sequence_model import SequenceModel
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture
from mlm.model.checkpoints import Checkpoint
from mlm.samples.shuffling import SampleOrder
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pretrained import load_pretrained
from mlm.training.devices import Devices
from mlm.training.in_jax.engine import MeshEngine
from mlm.training.loop import Schedule


@dataclass(frozen=True)
class Fold:
    """A training of a fold: the rows `train` and `test` of the examples, as arrays by name, from
    the weights of `start` (None: random ones)."""

    name: str
    seed: int
    section: Finetune
    model: SequenceModel
    start: Checkpoint | None
    arrays: dict[str, np.ndarray]
    train: np.ndarray
    test: np.ndarray
    batch_size: int

    @property
    def optimizer(self) -> Optimizer:
        """Pretraining's AdamW as section `finetune` sets it, with a linear decay to 0."""
        section = self.section
        return OptimizerSection(
            name="adamw",
            learning_rate=section.learning_rate,
            warmup_ratio=section.warmup_ratio,
            weight_decay=section.optimizer.weight_decay,
            max_grad_norm=section.optimizer.max_grad_norm,
            epsilon=1e-8,
        ).scheduled(self._steps)

    @property
    def _steps(self) -> int:
        return math.ceil(self.section.epochs * len(self.train) / self.batch_size)

    @property
    def schedule(self) -> Schedule:
        """Each epoch is logged, and validated on the held-out examples."""
        every = math.ceil(len(self.train) / self.batch_size)
        length = self.arrays["input_ids"].shape[-1]
        data = self.batch_size, len(self.train), length
        return Schedule(self.name, self._steps, *data, self.optimizer, every, every, "finetune")

    def computation(self, devices: Devices) -> SequenceModel:
        return self.model

    def starting_weights(self, architecture: Architecture) -> tuple[dict[str, np.ndarray], None]:
        return self.model.parameters(self.seed, self.start), None

    def batches(self, step: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches after `step` updates, in the order of a pretraining."""
        order = SampleOrder((len(self.train),), self.seed, len(self.train))
        for first in range(step * self.batch_size, self._steps * self.batch_size, self.batch_size):
            _, indices = order.samples(first + np.arange(self.batch_size))
            yield {name: array[self.train[indices]] for name, array in self.arrays.items()}


class FoldEngine(MeshEngine):
    """The trainings of a fold, one after the other."""

    def __init__(self, fold: Fold, devices: Devices):
        self.fold = fold
        super().__init__(fold, devices)
        rows = (self._divided, self._divided)
        self._logits = jax.jit(
            fold.model.logits, in_shardings=(self._whole, *rows), out_shardings=self._whole
        )

    def begin(self, fold: Fold) -> None:
        """Begin another training, which differs in its seed alone."""
        self.fold, self.step, self._batches = fold, 0, None
        self._beside = replace(self._beside, seed=fold.seed)
        self.begin_with(fold.starting_weights(self.architecture)[0])

    def advance(self, steps: int) -> dict[str, float]:
        sums = super().advance(steps)
        if self.fold.section.task == "regression":
            del sums["accuracy"]
        return sums

    def _training_batches(self) -> Iterator[dict]:
        for step, batch in enumerate(self.fold.batches(self.step), start=self.step):
            yield batch | self._beside_batch(step)

    def predictions(self) -> np.ndarray:
        """Return the logits of the held-out examples: float32 [examples, outputs]."""
        size, test, logits = self.fold.batch_size, self.fold.test, []
        for first in range(0, len(test), size):
            rows = np.resize(test[first : first + size], size)
            batch = (self.fold.arrays[name][rows] for name in ("input_ids", "attention_mask"))
            logits.append(np.asarray(self._logits(self._state["parameters"], *batch)))
        return np.concatenate(logits)[: len(test)]

    def validate(self) -> tuple[float, float]:
        """Return loss and score of the held-out examples."""
        labels = self.fold.arrays["labels"][self.fold.test]
        return loss_and_score(self.fold.section.task, self.predictions(), labels)


def encoder_of(checkpoint: Checkpoint, published: bool) -> tuple[Encoder, int | None]:
    """Its tokenizer, and the longest input that this was made for (None: unknown); MlmError if it
    has none, or ids that the model lacks."""
    if not checkpoint.tokenizer:
        raise MlmError(f"finetune.also: {checkpoint.place} has no tokenizer.json")
    if not published:
        return Encoder.load(checkpoint.tokenizer), None
    directory = str(checkpoint.tokenizer.parent)
    content, special, longest = load_pretrained(directory, None, "finetune.also")
    encoder, rows = Encoder(content, special), checkpoint.fields.get("vocab_size", 0)
    if encoder.vocabulary_size > rows:
        raise MlmError(
            f"finetune.also: {checkpoint.place} has {rows:,} word embeddings (vocab_size), but its "
            f"tokenizer.json has {encoder.vocabulary_size:,} ids. Both must be of one model"
        )
    return encoder, longest


def arrays_of(
    examples: list[Example], classes: list[str], encoder: Encoder, length: int
) -> tuple[dict[str, np.ndarray], int]:
    """`input_ids` and `attention_mask`, int32 [examples, length], `labels` and `weights`
    [examples], and how many texts were truncated; these keep their last token, [SEP]."""
    ids = np.full((len(examples), length), encoder.special_ids.pad, np.int32)
    encoded = encoder.encode([e.excerpt for e in examples])
    lengths = np.array([len(tokens) for tokens in encoded])
    for row, tokens in zip(ids, encoded, strict=True):
        tokens = tokens if len(tokens) <= length else [*tokens[: length - 1], tokens[-1]]
        row[: len(tokens)] = tokens
    value_of, kind = (classes.index, np.int32) if classes else (float, np.float32)
    arrays = {
        "input_ids": ids,
        "attention_mask": (np.arange(length) < lengths[:, None]).astype(np.int32),
        "labels": np.array([value_of(e.target) for e in examples], kind),
        "weights": np.ones(len(examples), np.float32),
    }
    return arrays, int(np.count_nonzero(lengths > length))


def loss_and_score(task: str, logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The loss as trained (squared error, or nats) and the score as reported (RMSE, or accuracy) of
    `logits` [examples, outputs] against `labels` [examples]."""
    if task == "regression":
        squared = float(np.mean((logits[:, 0].astype(np.float64) - labels) ** 2))
        return squared, squared**0.5
    surprise = -log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(labels)), labels]
    return float(surprise.mean()), float(np.mean(logits.argmax(axis=1) == labels))

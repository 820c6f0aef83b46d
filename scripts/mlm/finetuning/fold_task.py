"""A fold of a fine-tuning as a task for the training loop: its examples, batches and engine."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from scipy.special import log_softmax

from mlm.config.finetune import Finetune
from mlm.config.pretraining import Optimizer
from mlm.finetuning.artefacts import Example, Prediction, predictions_of, texts_of
from mlm.finetuning.scores import Metric, metric_of
from mlm.finetuning.sequence_model import SequenceModel
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError
from mlm.model.checkpoints import Checkpoint
from mlm.model.network import Parameters
from mlm.samples.shuffling import SampleOrder
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pretrained import load_pretrained
from mlm.training.devices import Devices
from mlm.training.engine import Batches
from mlm.training.in_jax.devices import shardings
from mlm.training.in_jax.engine import MeshEngine

#: The tag that is predicted for a word that the model does not see: none that is right.
NO_TAG = "[CUT]"
#: Arrays that the network reads.
_READ = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Fold:
    """A training of a fold: the rows `train` and `test` of the `examples`, with their `arrays` by
    name, from the weights of `start` (None: random ones)."""

    name: str
    seed: int
    settings: Finetune
    learning_rate: float
    model: SequenceModel
    start: Checkpoint | None
    examples: list[Example]
    arrays: dict[str, np.ndarray]
    #: Of sentences, the place of each word's first piece, 0 for a word that is cut.
    pieces: list[list[int]]
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

    validate_every = log_every

    def epoch(self, step: int) -> float:
        return step * self.batch_size / len(self.train)

    def tokens(self, step: int) -> int:
        return step * self.batch_size * self.arrays["input_ids"].shape[-1]

    def computation(self, devices: Devices) -> SequenceModel:
        return self.model

    def starting_weights(self) -> tuple[dict[str, np.ndarray], None]:
        return self.model.parameters(self.seed, self.start), None

    def batches(self, step: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches after `step` updates, in the order of a pretraining."""
        order = SampleOrder((len(self.train),), self.seed, len(self.train))
        for first in range(step * self.batch_size, self.steps * self.batch_size, self.batch_size):
            _, indices = order.samples(first + np.arange(self.batch_size))
            yield {name: array[self.train[indices]] for name, array in self.arrays.items()}

    def predictions(self, outputs: Iterable[np.ndarray]) -> list[Prediction]:
        """The predictions for the held-out examples by the `outputs` of each training."""
        classes, pieces = self.model.classes, [self.pieces[i] for i in self.test if self.pieces]
        texts = (tags_of(x, pieces, classes) if pieces else texts_of(x, classes) for x in outputs)
        return predictions_of([self.examples[i] for i in self.test], texts)


class FoldEngine(MeshEngine):
    """The trainings of a fold, one after the other."""

    def __init__(self, fold: Fold, devices: Devices):
        self.fold = fold
        super().__init__(fold, devices)
        self._update = self._compiled(None, fold.seed)
        self._logits = on_devices(fold.model, devices.strategy)

    def begin(self, fold: Fold) -> None:
        """Begin another training, which differs in its seed alone."""
        self.fold, self.step, self._batches = fold, 0, None
        self._beside = replace(self._beside, seed=fold.seed)
        self.begin_with(fold.starting_weights()[0])

    def advance(self, steps: int) -> dict[str, float]:
        sums = super().advance(steps)
        if self.fold.settings.task == "regression":
            del sums["accuracy"]
        return sums

    def _training_batches(self) -> Batches:
        for step, batch in enumerate(self.fold.batches(self.step), start=self.step):
            yield self._update, batch | self._beside_batch(step)

    def outputs(self) -> np.ndarray:
        """Return the logits of the held-out examples: float32 [examples, outputs]."""
        rows = {name: self.fold.arrays[name][self.fold.test] for name in _READ}
        return self._logits(self._state["parameters"], rows, self.fold.batch_size)

    def validate(self) -> tuple[float | None, float | None]:
        """Return loss and score of the held-out examples, None without any."""
        fold = self.fold
        if not len(fold.test):
            return None, None
        outputs = self.outputs()
        loss = mean_loss(outputs, *(fold.arrays[n][fold.test] for n in ("labels", "weights")))
        return loss, fold.metric.of(fold.predictions([outputs]))


def on_devices(model: SequenceModel, mesh: Any) -> Callable[[Parameters, dict, int], np.ndarray]:
    """The function of weights, arrays of rows, and the size of a batch that gives their logits."""
    whole, divided = shardings(mesh)
    logits = jax.jit(model.logits, in_shardings=(whole, divided, divided), out_shardings=whole)

    def of_rows(weights: Parameters, arrays: dict[str, np.ndarray], size: int) -> np.ndarray:
        count, parts = len(arrays["input_ids"]), []
        for first in range(0, count, size):
            # The last batch is filled up, so that all have one shape.
            rows = np.arange(first, first + size) % count
            parts.append(np.asarray(logits(weights, *(arrays[name][rows] for name in _READ))))
        return np.concatenate(parts)[:count]

    return of_rows


def encoder_of(checkpoint: Checkpoint, published: bool) -> tuple[Encoder, int | None]:
    """Its tokenizer, and the longest input it was made for, or None; MlmError if it is unfit."""
    if not published:
        settings = read_json(checkpoint.tokenizer.with_name("tokenizer_config.json"))
        return Encoder.load(checkpoint.tokenizer), settings.get("model_max_length")
    directory = str(checkpoint.tokenizer.parent)
    content, special, longest = load_pretrained(directory, None, "finetune.also")
    encoder, rows = Encoder(content, special), checkpoint.fields.get("vocab_size", 0)
    if encoder.vocabulary_size > rows:
        raise MlmError(
            f"finetune.also: {checkpoint.place} has {rows:,} word embeddings (vocab_size), but its "
            f"tokenizer.json has {encoder.vocabulary_size:,} ids. Both must be of one model"
        )
    return encoder, longest


def tokenised(
    encoder: Encoder, texts: Sequence[str], most: int | None
) -> tuple[dict[str, np.ndarray], int]:
    """`input_ids` and `attention_mask`, int32 [texts, length], as long as the longest text but at
    most `most`, and how many texts were truncated; these keep their last token, [SEP]."""
    encoded = encoder.encode(texts)
    length = min(most or 2**31, max(map(len, encoded)))
    cut = [ids if len(ids) <= length else [*ids[: length - 1], ids[-1]] for ids in encoded]
    return padded(cut, encoder.special_ids.pad), sum(len(ids) > length for ids in encoded)


def padded(rows: Sequence[list[int]], padding: int) -> dict[str, np.ndarray]:
    """`input_ids` and `attention_mask`, int32 [rows, length], of rows of ids."""
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), lengths.max()), padding, np.int32)
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    return {"input_ids": ids, "attention_mask": mask.astype(np.int32)}


def labelled(examples: Sequence[Example], classes: list[str]) -> dict[str, np.ndarray]:
    """`labels`, numbers of classes int32 or values float32, and `weights` [examples]."""
    value_of, kind = (classes.index, np.int32) if classes else (float, np.float32)
    labels = np.array([value_of(e.target) for e in examples], kind)
    return {"labels": labels, "weights": np.ones(len(examples), np.float32)}


def tagged(
    examples: Sequence[Example], classes: list[str], encoder: Encoder, most: int | None
) -> tuple[dict[str, np.ndarray], list[list[int]]]:
    """The arrays of sentences, with `labels` int32 and `weights` [examples, length] at the first
    pieces of words, and the places of these."""
    sentences = [e.excerpt.split("\t") for e in examples]
    rows, pieces = zip(*(first_pieces(s, encoder, most) for s in sentences), strict=True)
    arrays = padded(rows, encoder.special_ids.pad)
    labels = np.zeros_like(arrays["input_ids"])
    weights = np.zeros(labels.shape, np.float32)
    for i, example in enumerate(examples):
        for place, tag in zip(pieces[i], example.target.split(" "), strict=True):
            if place:
                labels[i, place], weights[i, place] = classes.index(tag), 1
    return arrays | {"labels": labels, "weights": weights}, list(pieces)


def first_pieces(
    words: Sequence[str], encoder: Encoder, most: int | None
) -> tuple[list[int], list[int]]:
    """The ids of a sentence, at most `most` with the last, [SEP], and the place there of the first
    piece of each word; 0 for a word that was cut, or has none."""
    ids, offsets = encoder.encode_with_offsets(" ".join(words))
    read = min(len(ids), most or len(ids)) - 1
    places, piece, start = [], 1, 0
    for word in words:
        while piece < read and offsets[piece][1] <= start:
            piece += 1
        begins = piece < read and offsets[piece][0] < start + len(word)
        places.append(piece if begins else 0)
        start += len(word) + 1
    return [*ids[:read], ids[-1]], places


def tags_of(
    outputs: np.ndarray, pieces: Sequence[Sequence[int]], classes: Sequence[str]
) -> list[str]:
    """The tags of sentences as text, by `outputs` [sentences, length, tags] at the `pieces`."""
    return [
        " ".join(classes[int(row[place])] if place else NO_TAG for place in places)
        for row, places in zip(outputs.argmax(axis=-1), pieces, strict=True)
    ]


def mean_loss(outputs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The mean loss as trained (squared error, or nats), weighted, of outputs [..., outputs]."""
    outputs = outputs.astype(np.float64)
    if labels.dtype == np.float32:
        losses = (outputs[..., 0] - labels) ** 2
    else:
        losses = -np.take_along_axis(log_softmax(outputs, axis=-1), labels[..., None], -1)[..., 0]
    return float(np.average(losses, weights=weights))

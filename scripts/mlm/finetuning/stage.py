"""One fold of a fine-tuning as a job: from files and settings to predictions and a model."""

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlm.code_digests import code_digests
from mlm.digests import file_sha256, value_sha256
from mlm.errors import MlmError
from mlm.finetuning.examples import Example, read_examples
from mlm.finetuning.files import EpochRow, write_history, write_predictions
from mlm.finetuning.flax_model import (
    longest_sequence,
    pretrained_model,
    random_model,
    sequence_configuration,
    write_flax_model,
)
from mlm.finetuning.jax_framework import data_mesh, prepare
from mlm.finetuning.scores import classes_of, score
from mlm.finetuning.state import FoldState
from mlm.finetuning.step import (
    AdamW,
    Schedule,
    Tokenised,
    abstract_batch,
    batches,
    compiled,
    epoch_order,
    first_state,
    optimizer_of,
    predict_step,
    train_step,
)
from mlm.tokenizer.encoding import Encoder

#: Modules that decide the bits of a fold's weights; an edit elsewhere keeps its states.
COMPUTING_MODULES = (
    "mlm.finetuning.examples",
    "mlm.finetuning.flax_model",
    "mlm.finetuning.jax_framework",
    "mlm.finetuning.scores",
    "mlm.finetuning.step",
    "mlm.tokenizer.encoding",
)


@dataclass(frozen=True)
class FoldSettings:
    """Which fold of which run, from which weights ("pretrained", "random"), and how."""

    run: str
    start: str
    fold: int
    seed: int
    finetune: dict
    accelerator: dict

    @property
    def task(self) -> str:
        return self.finetune["task"]


@dataclass(frozen=True)
class FoldFiles:
    """Where a fold reads and writes."""

    examples: str
    model: str
    predictions: str
    history: str
    weights: str
    state: str


@dataclass(frozen=True)
class FoldData:
    """A fold's examples as the model reads them; targets float32, a class by its index."""

    examples: list[Example]
    classes: list[str]
    tokens: Tokenised
    targets: np.ndarray
    train: np.ndarray
    test: np.ndarray


def tokenise(encoder: Encoder, excerpts: list[str], length: int) -> Tokenised:
    """The passages cut to `length` tokens, their last token [SEP], and padded."""
    ids = np.full((len(excerpts), length), encoder.special_ids.pad, np.int32)
    mask = np.zeros((len(excerpts), length), np.int32)
    truncated = 0
    for i, tokens in enumerate(encoder.encode(excerpts)):
        if len(tokens) > length:
            truncated += 1
            tokens = [*tokens[: length - 1], tokens[-1]]
        ids[i, : len(tokens)] = tokens
        mask[i, : len(tokens)] = 1
    return Tokenised(ids, mask, truncated)


def read_fold(settings: FoldSettings, files: FoldFiles, length: int) -> FoldData:
    """The examples, divided into those that are learned from and those held out."""
    examples, folds = read_examples(files.examples)
    held_out = np.array(folds) == settings.fold
    if not held_out.any() or held_out.all():
        raise MlmError(
            f"{files.examples}: fold {settings.fold} of {settings.finetune['folds']} has "
            f"{held_out.sum()} of {len(examples)} examples; each fold needs some to test and "
            "some to learn from. Give more data, or fewer folds"
        )
    classes = classes_of(examples, settings.task)
    encoder = Encoder.load(Path(files.model) / "tokenizer.json")
    values = [float(e.target) if not classes else classes.index(e.target) for e in examples]
    return FoldData(
        examples=examples,
        classes=classes,
        tokens=tokenise(encoder, [e.excerpt for e in examples], length),
        targets=np.array(values, np.float32),
        train=np.flatnonzero(~held_out),
        test=np.flatnonzero(held_out),
    )


def fingerprint(settings: FoldSettings, files: FoldFiles) -> str:
    """What a saved state must have been made from for this fold to go on from it."""
    code = code_digests(Path(__file__).parents[2], COMPUTING_MODULES)
    return value_sha256(
        {
            "settings": asdict(settings),
            "examples": file_sha256(files.examples),
            "model": file_sha256(Path(files.model) / "model.safetensors"),
            "code": {name: code[name] for name in COMPUTING_MODULES},
        }
    )[:16]


def length_of(config, asked: int) -> int:
    """Tokens of a passage that are read: as asked, or what the model has positions for."""
    return min(asked, longest_sequence(config))


class Fold:
    """A fold ready to train: model, data, and the two functions compiled for the mesh."""

    def __init__(self, settings: FoldSettings, files: FoldFiles):
        section, accelerator = settings.finetune, settings.accelerator
        virtual = accelerator["virtual_replicas"]
        # Before JAX is imported, which reads the environment then.
        prepare(accelerator["kind"], section["cpu_threads"], virtual)
        import jax.numpy as jnp

        self.mesh = data_mesh(accelerator["kind"], virtual)
        devices = self.mesh.devices.size
        classes = classes_of(read_examples(files.examples)[0], settings.task)
        self.config = sequence_configuration(files.model, len(classes) or 1, section["dropout"])
        self.data = read_fold(settings, files, length_of(self.config, section["max_length"]))
        precision = accelerator["precision"]
        on_tpu = self.mesh.devices.flat[0].platform == "tpu"
        half = precision == "bfloat16" or (precision == "auto" and on_tpu)
        dtype = jnp.bfloat16 if half else jnp.float32
        if settings.start == "pretrained":
            model = pretrained_model(files.model, self.config, settings.seed, dtype)
        else:
            model = random_model(self.config, settings.seed, dtype)
        self.batch_size = section["per_device_batch_size"] * devices
        schedule = Schedule(
            peak=section["learning_rate"],
            epochs=section["epochs"],
            steps_per_epoch=-(-len(self.data.train) // self.batch_size),
            warmup_ratio=section["warmup_ratio"],
        )
        optimizer = optimizer_of(AdamW(**section["optimizer"]), schedule)
        self.state = first_state(model.params, optimizer, settings.seed)
        self._model, self._optimizer = model, optimizer

    def compile(self) -> float:
        """Compile for the mesh; the seconds that it took."""
        began = time.monotonic()
        shape = abstract_batch(self.batch_size, self.data.tokens.input_ids.shape[1])
        self._step, self._predict = compiled(
            self.mesh,
            train_step(self._model, self._optimizer),
            predict_step(self._model),
            self.state,
            shape,
        )
        return time.monotonic() - began

    def _batch(self, rows: np.ndarray) -> dict:
        tokens = self.data.tokens
        return {
            "input_ids": tokens.input_ids[rows],
            "attention_mask": tokens.attention_mask[rows],
        }

    def epoch(self, order: np.ndarray) -> float:
        """Learn from the examples once, in `order`; the mean loss over them."""
        found, counts = [], []
        several = self.mesh.devices.size > 1 and self.mesh.devices.flat[0].platform == "cpu"
        for rows, weights in batches(self.data.train[order], self.batch_size):
            batch = self._batch(rows) | {"targets": self.data.targets[rows], "weights": weights}
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
            for rows, weights in batches(self.data.test, self.batch_size)
        ]
        return np.concatenate(parts)


def finetune_fold(settings: FoldSettings, files: FoldFiles) -> None:
    """Train or resume one fold, and write its predictions, history and model."""
    kept = FoldState(Path(files.state) / fingerprint(settings, files))
    fold = Fold(settings, files)
    data, epochs = fold.data, settings.finetune["epochs"]
    rows: list[dict] = []
    if (found := kept.restore(fold.state)) is not None:
        fold.state, rows = found
    compiling = fold.compile()
    label = f"{settings.run}, {settings.start}, fold {settings.fold}"
    print(
        f"{label}: {len(data.train)} passages to learn from, {len(data.test)} held out, "
        f"{data.tokens.truncated} longer than {data.tokens.input_ids.shape[1]} tokens; "
        f"compiled in {compiling:.1f} s; {len(rows)} of {epochs} epochs done",
        file=sys.stderr,
    )
    for epoch in range(len(rows), epochs):
        began = time.monotonic()
        loss = fold.epoch(epoch_order(len(data.train), settings.seed, settings.fold, epoch))
        elapsed = time.monotonic() - began
        measured = score(settings.task, fold.predictions(), data.targets[data.test])
        row = EpochRow(
            fold=settings.fold,
            epoch=epoch + 1,
            train_loss=loss,
            validation_loss=measured.loss,
            score=measured.score,
            elapsed=elapsed,
            compile=compiling,
            samples_per_second=len(data.train) / elapsed,
        )
        compiling = 0.0
        rows.append(asdict(row))
        kept.save(fold.state, rows)
        left = (epochs - epoch - 1) * elapsed
        print(
            f"{label}: epoch {row.epoch}/{epochs}, train loss {loss:.4f}, held out "
            f"{row.validation_loss:.4f}, score {row.score:.4f}, "
            f"{row.samples_per_second:,.0f} passages/s, {left:,.0f} s left",
            file=sys.stderr,
        )
    write_predictions(
        files.predictions,
        [data.examples[place] for place in data.test],
        data.classes,
        fold.predictions(),
        settings.fold,
    )
    write_history(files.history, [EpochRow(**row) for row in rows])
    write_flax_model(Path(files.weights).parent, fold.state["params"], fold.config)
    kept.remove()

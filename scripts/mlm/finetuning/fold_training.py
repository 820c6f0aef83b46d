"""One fold of a fine-tuning as a job: from files and settings to predictions and a model."""

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlm.finetuning.artefacts import Device, FoldRecord, LearnedAndHeldOut, TrainingRecord
from mlm.finetuning.epoch_states import FoldStates, TrainingStates
from mlm.finetuning.examples import Example, read_examples
from mlm.finetuning.finetuning_step import (
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
    training_seed,
)
from mlm.finetuning.scores import classes_of, score
from mlm.finetuning.tables import EpochRow, history_digest, write_history, write_predictions
from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder
from mlm.training.in_jax.framework import data_mesh, prepare

#: Modules that decide the bits of a fold's weights; an edit elsewhere keeps its states.
COMPUTING_MODULES = (
    "mlm.model.architecture",
    "mlm.model.network",
    "mlm.model.weights",
    "mlm.finetuning.examples",
    "mlm.finetuning.finetuning_step",
    "mlm.finetuning.scores",
    "mlm.finetuning.sequence_model",
    "mlm.training.in_jax.framework",
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
    record: str
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


class Fold:
    """A fold ready to train: data, and the two functions compiled for the mesh."""

    def __init__(self, settings: FoldSettings, files: FoldFiles):
        section, accelerator = settings.finetune, settings.accelerator
        virtual = accelerator["virtual_replicas"]
        # Before JAX is imported, which reads the environment then.
        prepare(accelerator["kind"], section["cpu_threads"], virtual)
        import jax.numpy as jnp

        from mlm.finetuning.sequence_model import read_sequence_model

        self.mesh = data_mesh(accelerator["kind"], virtual)
        self.platform = self.mesh.devices.flat[0].platform
        classes = classes_of(read_examples(files.examples)[0], settings.task)
        precision = accelerator["precision"]
        half = precision == "bfloat16" or (precision == "auto" and self.platform == "tpu")
        dtype = jnp.bfloat16 if half else jnp.float32
        outputs = len(classes) or 1
        self.model = read_sequence_model(files.model, outputs, section["dropout"], dtype)
        self.data = read_fold(settings, files, self.model.length(section["max_length"]))
        self.precision = "bfloat16" if half else "float32"
        self.batch_size = section["per_device_batch_size"] * self.mesh.devices.size
        schedule = Schedule(
            peak=section["learning_rate"],
            epochs=section["epochs"],
            steps_per_epoch=-(-len(self.data.train) // self.batch_size),
            warmup_ratio=section["warmup_ratio"],
        )
        self._optimizer = optimizer_of(AdamW(**section["optimizer"]), schedule)
        self._settings, self._files = settings, files

    def begin(self, seed: int) -> None:
        """Set `state` to that before the first step, what is random in it drawn by `seed`."""
        if self._settings.start == "pretrained":
            parameters = self.model.pretrained_parameters(self._files.model, seed)
        else:
            parameters = self.model.random_parameters(seed)
        self.state = first_state(parameters, self._optimizer, seed)

    def compile(self) -> float:
        """Compile for the mesh, once `begin` was called; the seconds that it took."""
        began = time.monotonic()
        shape = abstract_batch(self.batch_size, self.data.tokens.input_ids.shape[1])
        self._step, self._predict = compiled(
            self.mesh,
            train_step(self.model, self._optimizer),
            predict_step(self.model),
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
        several = self.mesh.devices.size > 1 and self.platform == "cpu"
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


@dataclass(frozen=True)
class Training:
    """One training of a fold: its epochs, and its logits float32 [held out, outputs]."""

    seed: int
    rows: list[EpochRow]
    logits: np.ndarray


def finetune_fold(settings: FoldSettings, files: FoldFiles) -> None:
    """Train or resume one fold as often as `seeds` says, and write what came of it.

    The model that is written is that of the first training. Raises MlmError where a training
    diverges.
    """
    states = FoldStates(Path(files.state) / fingerprint(settings, files))
    fold = Fold(settings, files)
    first = training_seed(settings.seed, settings.fold, 0)
    fold.begin(first)
    compiling = fold.compile()
    data, label = fold.data, f"{settings.run}, {settings.start}, fold {settings.fold}"
    print(
        f"{label}: {len(data.train)} passages to learn from, {len(data.test)} held out, "
        f"{data.tokens.truncated} longer than {data.tokens.input_ids.shape[1]} tokens; "
        f"compiled in {compiling:.1f} s for {fold.mesh.devices.size} x {fold.platform}",
        file=sys.stderr,
    )
    trainings = []
    for number in range(settings.finetune["seeds"]):
        if number:
            fold.begin(training_seed(settings.seed, settings.fold, number))
        trainings.append(_train(fold, settings, states.training(number), number, compiling))
        compiling = 0.0
        if number == 0:
            kept = fold.state["params"]
    write_predictions(
        files.predictions,
        [data.examples[place] for place in data.test],
        data.classes,
        [training.logits for training in trainings],
        settings.fold,
    )
    write_history(files.history, [row for training in trainings for row in training.rows])
    fold.model.write(Path(files.weights).parent, kept)
    _record(settings, fold, trainings).write(files.record)
    states.remove()


def _train(
    fold: Fold, settings: FoldSettings, states: TrainingStates, number: int, compiling: float
) -> Training:
    """One training of the fold, which was begun: from its saved state, or from the start."""
    data, epochs = fold.data, settings.finetune["epochs"]
    label = f"{settings.run}, {settings.start}, fold {settings.fold}, seed {number}"
    seed, rows = training_seed(settings.seed, settings.fold, number), []
    if (found := states.restore(fold.state)) is not None:
        fold.state, rows = found
        print(f"{label}: {len(rows)} of {epochs} epochs done", file=sys.stderr)
    for epoch in range(len(rows), epochs):
        began = time.monotonic()
        loss = fold.epoch(epoch_order(len(data.train), seed, settings.fold, epoch))
        elapsed = time.monotonic() - began
        measured = score(settings.task, fold.predictions(), data.targets[data.test])
        if not np.isfinite([loss, measured.loss]).all():
            raise MlmError(
                f"{label}: the training diverged in epoch {epoch + 1} (train loss {loss}, held out "
                f"{measured.loss}). Lower finetune.learning_rate, which is "
                f"{settings.finetune['learning_rate']:g}, by a factor of ten, or set "
                "finetune.optimizer.max_grad_norm: 1.0"
            )
        row = EpochRow(
            fold=settings.fold,
            seed=number,
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
        states.save(fold.state, rows)
        left = (epochs - epoch - 1) * elapsed
        print(
            f"{label}: epoch {row.epoch}/{epochs}, train loss {loss:.4f}, held out "
            f"{row.validation_loss:.4f}, score {row.score:.4f}, "
            f"{row.samples_per_second:,.0f} passages/s, {left:,.0f} s left",
            file=sys.stderr,
        )
    return Training(seed, [EpochRow(**row) for row in rows], fold.predictions())


def _record(settings: FoldSettings, fold: Fold, trainings: list[Training]) -> FoldRecord:
    """What fold.json says of the fold: nothing that time changes."""
    best = min if settings.task == "regression" else max
    rows = [row for training in trainings for row in training.rows]
    described = []
    for training in trainings:
        last, top = training.rows[-1], best(training.rows, key=lambda row: row.score)
        described.append(
            TrainingRecord(
                seed=training.seed,
                epochs=len(training.rows),
                train_loss=round(last.train_loss, 6),
                validation_loss=round(last.validation_loss, 6),
                score=round(last.score, 6),
                best_epoch=top.epoch,
                best_score=round(top.score, 6),
            )
        )
    return FoldRecord(
        run=settings.run,
        start=settings.start,
        fold=settings.fold,
        task=settings.task,
        examples=LearnedAndHeldOut(len(fold.data.train), len(fold.data.test)),
        history=history_digest(rows),
        truncated=fold.data.tokens.truncated,
        device=Device(fold.platform, int(fold.mesh.devices.size)),
        precision=fold.precision,
        trainings=described,
    )

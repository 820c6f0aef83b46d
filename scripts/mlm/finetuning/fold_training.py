"""One fold of a fine-tuning as a job: from the examples to predictions and a model."""

import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.finetuning.artefacts import Device, FoldRecord, LearnedAndHeldOut, TrainingRecord
from mlm.finetuning.epoch_states import FoldStates, TrainingStates
from mlm.finetuning.fold_engine import Fold, epoch_order, loss_and_score
from mlm.finetuning.tables import (
    EpochRow,
    Prediction,
    history_digest,
    write_history,
    write_predictions,
)
from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.errors import MlmError

#: Modules that decide the bits of a fold's weights; an edit elsewhere keeps its states.
COMPUTING_MODULES = (
    "mlm.model.architecture",
    "mlm.model.network",
    "mlm.model.weights",
    "mlm.finetuning.examples",
    "mlm.finetuning.fold_engine",
    "mlm.finetuning.sequence_model",
    "mlm.training.in_jax.framework",
    "mlm.tokenizer.encoding",
)


def finetune_fold(
    names: tuple[str, str, int],
    seed: int,
    section: Finetune,
    accelerator: Accelerator,
    examples: str | Path,
    model: str | Path,
    directory: str | Path,
    state: str | Path,
) -> list[EpochRow]:
    """Train or resume one fold as often as `seeds` says, write its results, and give its epochs.

    `names` are the run, the start ("pretrained" or "random") and the fold. `examples` is the
    table, `model` the run's exported model, `directory` is for the results and `state` for what an
    interrupted job resumes from. The model that is written is that of the first training. Raises
    MlmError if a training diverges.
    """
    run, start, number = names
    basis = {
        "fold": [start, number, seed],
        "settings": [section.model_dump(), accelerator.model_dump()],
        "examples": file_sha256(examples),
        "model": file_sha256(Path(model) / "model.safetensors"),
        "code": code_digests(Path(__file__).parents[2], COMPUTING_MODULES),
    }
    states = FoldStates(Path(state) / value_sha256(basis)[:16])
    fold = Fold(number, section, accelerator, examples, model)
    seeds = [training_seed(seed, number, training) for training in range(section.seeds)]
    fold.begin(start, seeds[0])
    compiling = fold.compile()
    label = f"{run}, {start}, fold {number}"
    print(
        f"{label}: {len(fold.train)} passages to learn from, {len(fold.test)} held out, "
        f"{fold.truncated} longer than {fold.input_ids.shape[1]} tokens; "
        f"compiled in {compiling:.1f} s for {fold.mesh.devices.size} x {fold.platform}",
        file=sys.stderr,
    )
    trainings, logits = [], []
    for training, own in enumerate(seeds):
        if training:
            fold.begin(start, own)
        named = f"{label}, seed {training}"
        trainings.append(_train(fold, named, (training, own), states.training(training), compiling))
        logits.append(fold.predictions())
        compiling = 0.0
        if not training:
            kept = fold.state["params"]
    directory, rows = Path(directory), [row for epochs in trainings for row in epochs]
    write_predictions(directory / "predictions.csv", _named(fold, logits))
    write_history(directory / "history.csv", rows)
    fold.model.write(directory, kept)
    FoldRecord(
        run=run,
        start=start,
        fold=number,
        task=section.task,
        examples=LearnedAndHeldOut(len(fold.train), len(fold.test)),
        history=history_digest(rows),
        truncated=fold.truncated,
        device=Device(fold.platform, int(fold.mesh.devices.size)),
        precision=fold.precision,
        trainings=list(map(_training_record, [section.task] * len(seeds), seeds, trainings)),
    ).write(directory / "fold.json")
    states.remove()
    return rows


def training_seed(seed: int, fold: int, number: int) -> int:
    """The seed of training `number` of a fold: an independent one for each (31 bits)."""
    return int(np.random.SeedSequence([seed, fold, number]).generate_state(1)[0]) >> 1


def _train(
    fold: Fold,
    label: str,
    training: tuple[int, int],
    states: TrainingStates,
    compiling: float,
) -> list[EpochRow]:
    """The epochs of one training (its number and seed) of the fold, which was begun: from its saved
    state, or from the start."""
    section, (number, seed), rows = fold.section, training, []
    if (found := states.restore(fold.state)) is not None:
        fold.state, rows = found
        print(f"{label}: {len(rows)} of {section.epochs} epochs done", file=sys.stderr)
    for epoch in range(len(rows), section.epochs):
        began = time.monotonic()
        loss = fold.epoch(epoch_order(len(fold.train), seed, fold.number, epoch))
        elapsed = time.monotonic() - began
        held_out, score = loss_and_score(section.task, fold.predictions(), fold.targets[fold.test])
        if not np.isfinite([loss, held_out]).all():
            raise MlmError(
                f"{label}: the training diverged in epoch {epoch + 1} (train loss {loss}, held out "
                f"{held_out}). Lower finetune.learning_rate, which is {section.learning_rate:g}, "
                "by a factor of ten, or set finetune.optimizer.max_grad_norm: 1.0"
            )
        row = EpochRow(
            fold=fold.number,
            seed=number,
            epoch=epoch + 1,
            train_loss=loss,
            validation_loss=held_out,
            score=score,
            elapsed=elapsed,
            compile=compiling,
            samples_per_second=len(fold.train) / elapsed,
        )
        compiling = 0.0
        rows.append(asdict(row))
        states.save(fold.state, rows)
        print(
            f"{label}: epoch {row.epoch}/{section.epochs}, train loss {loss:.4f}, held out "
            f"{held_out:.4f}, score {score:.4f}, {row.samples_per_second:,.0f} passages/s, "
            f"{(section.epochs - row.epoch) * elapsed:,.0f} s left",
            file=sys.stderr,
        )
    return [EpochRow(**row) for row in rows]


def _training_record(task: str, seed: int, rows: list[EpochRow]) -> TrainingRecord:
    """What fold.json says of a training: its last epoch and its best, without times."""
    last = rows[-1]
    top = (min if task == "regression" else max)(rows, key=lambda row: row.score)
    return TrainingRecord(
        seed=seed,
        epochs=len(rows),
        train_loss=round(last.train_loss, 6),
        validation_loss=round(last.validation_loss, 6),
        score=round(last.score, 6),
        best_epoch=top.epoch,
        best_score=round(top.score, 6),
    )


def _named(fold: Fold, logits: list[np.ndarray]) -> list[Prediction]:
    """The predictions of the held-out examples from each training's `logits`."""
    if fold.classes:
        said = [[fold.classes[i] for i in x.argmax(axis=1)] for x in logits]
    else:
        said = [[f"{v:.6f}" for v in x[:, 0]] for x in logits]
    held_out = [fold.examples[place] for place in fold.test]
    return [
        Prediction(e.id, fold.number, e.target, by_training)
        for e, by_training in zip(held_out, zip(*said, strict=True), strict=True)
    ]

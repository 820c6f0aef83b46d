"""One fold of a fine-tuning as a job: from the examples to predictions and a model."""

import hashlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Checkpoint as Checkpoints
from mlm.finetuning.artefacts import (
    FoldRecord,
    classes_of,
    predictions_of,
    read_examples,
    write_predictions,
)
from mlm.finetuning.fold_task import Fold, FoldEngine, arrays_of, encoder_of
from mlm.finetuning.sequence_model import sequence_model
from mlm.foundations.atomic import write_csv
from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.model.checkpoints import Checkpoint
from mlm.training.in_jax.devices import open_mesh
from mlm.training.periodic_actions import train
from mlm.training.state_basis import COMPUTING_MODULES, COMPUTING_PACKAGES
from mlm.training.states import StateDirectory
from mlm.training.training_log import Row, TrainingLog

#: Modules that decide the bits of a fold's weights, beside those of a pretraining in JAX.
FOLD_MODULES = (
    "mlm.finetuning.artefacts",
    "mlm.finetuning.fold_task",
    "mlm.finetuning.sequence_model",
    "mlm.tokenizer.encoding",
    "mlm.tokenizer.pretrained",
)
#: Steps between two looks at signals.
_AT_ONCE = 20


def finetune_fold(
    names: tuple[str | None, str, int],
    seed: int,
    section: Finetune,
    accelerator: Accelerator,
    examples: str | Path,
    model: str | Path,
    directory: str | Path,
    state: str | Path,
) -> float:
    """Train or resume one fold as often as `seeds` says, and write its results, with the first
    training's model; return the mean score. `names` are the run, the start and the fold; None, the
    label and the fold of a published encoder. MlmError if a training diverges, and after a signal,
    with the state saved."""
    run, start, number = names
    devices, rows = open_mesh(accelerator), read_examples(examples)
    checkpoint = Checkpoint.read(str(model), "results" if run else "finetune.also")
    classes = classes_of(rows, section.task)
    how = section.dropout, devices.precision, checkpoint.place
    network = sequence_model(checkpoint.fields, classes, *how)
    encoder, longest = encoder_of(checkpoint, published=run is None)
    length = network.length(min(section.max_length, longest or section.max_length))
    arrays, truncated = arrays_of(rows, classes, encoder, length)
    held_out = np.array([e.fold for e in rows]) == number
    fold = Fold(
        name=f"{run or 'published'}, {start}, fold {number}",
        seed=seed,
        section=section,
        model=network,
        start=None if start == "random" else checkpoint,
        arrays=arrays,
        train=np.flatnonzero(~held_out),
        test=np.flatnonzero(held_out),
        batch_size=section.per_device_batch_size * devices.replicas,
    )
    print(
        f"{fold.name}: {len(fold.train)} passages to learn from, {len(fold.test)} held out, "
        f"{truncated} longer than {length} tokens; {devices.replicas} x {devices.kind}",
        file=sys.stderr,
    )
    modules = COMPUTING_MODULES["both"] + COMPUTING_MODULES["jax"] + FOLD_MODULES
    basis = {
        "fold": [start, number],
        "settings": {"finetune": section.model_dump(), "accelerator": accelerator.model_dump()},
        "examples": file_sha256(examples),
        "input_ids": hashlib.sha256(arrays["input_ids"].tobytes()).hexdigest(),
        "model": checkpoint.sha256,
        "packages": package_versions(COMPUTING_PACKAGES["jax"]),
        "code": code_digests(SCRIPTS, modules),
    }
    engine, weights, outputs, history, scores = FoldEngine(fold, devices), {}, [], [], []
    for training in range(section.seeds):
        log = _trained(engine, fold, training, basis, state)
        outputs.append(engine.predictions())
        history += [[training, *_cells(row)] for row in log.rows]
        scores.append(log.rows[-1].validation_accuracy)
        weights = weights or engine.weights()
    predictions = predictions_of([rows[i] for i in fold.test], outputs, classes)
    write_predictions(f"{directory}/predictions.csv", predictions)
    columns = ["seed", "step", "epoch", "train_loss", "validation_loss", "score"]
    write_csv(f"{directory}/history.csv", columns, history)
    network.write(directory, weights)
    FoldRecord(
        *names,
        examples={"learned": len(fold.train), "held_out": len(fold.test)},
        truncated=truncated,
        device={"platform": devices.kind, "count": devices.replicas},
        precision=devices.precision,
        encoder=checkpoint.sha256 if run is None else None,
    ).write(f"{directory}/fold.json")
    shutil.rmtree(state, ignore_errors=True)
    return sum(scores) / len(scores)


def _trained(
    engine: FoldEngine, fold: Fold, number: int, basis: dict, state: str | Path
) -> TrainingLog:
    """Make training `number` of the fold, from its newest whole state if there is one."""
    seeds = np.random.SeedSequence([fold.seed, basis["fold"][1], number])
    name, seed = f"{fold.name}, seed {number}", int(seeds.generate_state(1)[0]) >> 1
    engine.begin(replace(fold, name=name, seed=seed))
    schedule, log = engine.fold.schedule, TrainingLog()
    states = StateDirectory.of(f"{state}/seed-{number}", 2, basis | {"seed": seed})
    # Steps in flight on virtual devices can wait for each other for ever.
    at_once = _AT_ONCE if engine.devices.replicas == 1 else 1
    with states.held():
        if found := states.newest_whole():
            place, engine.step, progress = found
            engine.read(place)
            log = TrainingLog.of(progress)
            print(f"{name}: resumes from step {engine.step}", file=sys.stderr)
        train(engine, schedule, Checkpoints(every=schedule.log_every), states, log, at_once)
    return log


def _cells(row: Row) -> list:
    figures = row.loss, row.validation_loss, row.validation_accuracy
    return [row.step, f"{row.epoch:.4f}", *(f"{figure:.6f}" for figure in figures)]

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
    Example,
    FoldRecord,
    classes_of,
    read_examples,
    write_predictions,
)
from mlm.finetuning.fold_task import Fold, FoldEngine, encoder_of, labelled, tagged, tokenised
from mlm.finetuning.sequence_model import sequence_model
from mlm.finetuning.splitting import validation_part
from mlm.foundations.atomic import write_csv
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.terminal import show
from mlm.model.checkpoints import Checkpoint
from mlm.tokenizer.encoding import copy_tokenizer
from mlm.training.devices import Devices
from mlm.training.in_jax.devices import open_mesh
from mlm.training.loop import Row, TrainingLog, train
from mlm.training.state_basis import COMPUTING_PACKAGES, computing_code
from mlm.training.states import StateDirectory

#: What stands for the number of the fold in the seed of the training on all examples.
_ALL = 1000
#: A warning is due if more than one in so many passages is cut.
_MANY = 20


def finetune_fold(
    names: tuple[str | None, str, int | None],
    seed: int,
    section: Finetune,
    accelerator: Accelerator,
    examples: str | Path,
    model: str | Path,
    directory: str | Path,
    record: str | Path,
    state: str | Path,
) -> str:
    """Train or resume one fold as often as `seeds` says, write its predictions, history and record,
    and return the mean score in words. `names` are the run, the start and the fold; None, the label
    and the fold of a published encoder. Without a number of the fold, train once on all examples,
    and write the model to use. MlmError if a training diverges, and after a signal, with the state
    saved."""
    run, start, number = names
    devices = open_mesh(accelerator)
    checkpoint = Checkpoint.read(str(model), "results" if run else "finetune.also")
    fold, truncated = fold_of(names, seed, section, read_examples(examples), checkpoint, devices)
    basis = {
        "fold": [start, number],
        "settings": {"finetune": section.model_dump(), "accelerator": accelerator.model_dump()},
        "examples": file_sha256(examples),
        "input_ids": hashlib.sha256(fold.arrays["input_ids"].tobytes()).hexdigest(),
        "model": checkpoint.sha256,
        "packages": package_versions(COMPUTING_PACKAGES["jax"]),
        "code": computing_code("jax", "mlm.finetuning.fold_task"),
    }
    tried = _scores_of_rates(fold, devices, basis, state)
    best = min if fold.metric.less_is_better else max
    fold = replace(fold, learning_rate=best(tried, key=lambda rate: tried[rate]))
    engine, outputs, history, scores = FoldEngine(fold, devices), [], [], []
    for training in range(section.seeds if len(fold.test) else 1):
        log = _trained(engine, fold, training, basis, f"{state}/seed-{training}")
        history += [[training, *_cells(row)] for row in log.rows]
        if len(fold.test):
            outputs.append(engine.outputs())
            scores.append(log.rows[-1].validation_accuracy)
    columns = ["seed", "step", "epoch", "train_loss", "validation_loss", "score"]
    write_csv(Path(record).with_name("history.csv"), columns, history)
    if len(fold.test):
        write_predictions(Path(directory) / "predictions.csv", fold.predictions(outputs))
    else:
        fold.model.write(directory, engine.weights())
        length = fold.arrays["input_ids"].shape[-1]
        copy_tokenizer(Path(model), Path(directory), model_max_length=section.max_length or length)
    FoldRecord(
        *names,
        examples={"learned": len(fold.train), "held_out": len(fold.test)},
        truncated=truncated,
        device={"platform": devices.kind, "count": devices.replicas},
        precision=devices.precision,
        learning_rate=fold.learning_rate,
        tried={f"{rate:g}": round(s, 6) for rate, s in tried.items()} if len(tried) > 1 else {},
        encoder=checkpoint.sha256 if run is None else None,
    ).write(record)
    shutil.rmtree(state, ignore_errors=True)
    return f"{fold.metric.unit} {sum(scores) / len(scores):.3f}" if scores else "on all examples"


def fold_of(
    names: tuple[str | None, str, int | None],
    seed: int,
    section: Finetune,
    examples: list[Example],
    checkpoint: Checkpoint,
    devices: Devices,
) -> tuple[Fold, int]:
    """The fold, and how many texts are longer than what the model reads."""
    run, start, number = names
    classes, tags = classes_of(examples, section.task), section.task == "token_classification"
    how = section.dropout, devices.precision, checkpoint.place, tags
    model = sequence_model(checkpoint.fields, classes, *how)
    encoder, longest = encoder_of(checkpoint, published=run is None)
    most, pieces = model.length(section.max_length, longest), []
    if tags:
        arrays, pieces = tagged(examples, classes, encoder, most)
        cut = {e.id: places.count(0) for e, places in zip(examples, pieces, strict=True)}
        truncated, what = sum(map(bool, cut.values())), "sentences"
        if truncated:
            shown = ", ".join([name for name, words in cut.items() if words][:10])
            print(f"{sum(cut.values())} words are cut, of: {shown}", file=sys.stderr)
    else:
        arrays, truncated = tokenised(encoder, [e.excerpt for e in examples], most)
        arrays, what = arrays | labelled(examples, classes), "passages"
    held_out = np.array([example.fold == number for example in examples])
    fold = Fold(
        name=f"{run or 'published'}, {start}, {'all' if number is None else f'fold {number}'}",
        seed=seed,
        settings=section,
        learning_rate=section.learning_rate[0],
        model=model,
        start=None if start == "random" else checkpoint,
        examples=examples,
        arrays=arrays,
        pieces=pieces,
        train=np.flatnonzero(~held_out),
        test=np.flatnonzero(held_out),
        batch_size=section.per_device_batch_size * devices.replicas,
    )
    length = arrays["input_ids"].shape[-1]
    print(
        f"{fold.name}: {len(fold.train)} {what} to learn from, {len(fold.test)} held out, "
        f"{truncated} longer than {length} tokens; {devices.replicas} x {devices.kind}",
        file=sys.stderr,
    )
    if truncated * _MANY > len(examples):
        show(
            f"Warning: {fold.name}: {truncated:,} of {len(examples):,} {what} are longer than "
            f"the {length} tokens that the model reads (finetune.max_length, or "
            "shards.sequence_length of its pretraining), and are cut there"
        )
    return fold, truncated


def _scores_of_rates(
    fold: Fold, devices: Devices, basis: dict, state: str | Path
) -> dict[float, float]:
    """The score of each learning rate on a validation part of the fold's training examples, after a
    training on the others; 0 of a single one."""
    rates = fold.settings.learning_rate
    if len(rates) == 1:
        return {rates[0]: 0.0}
    part = validation_part([fold.examples[i] for i in fold.train], fold.settings.task)
    parts, scores = {"train": fold.train[~part], "test": fold.train[part]}, {}
    for rate in rates:
        name = f"{fold.name}, rate {rate:g}"
        trial = replace(fold, name=name, learning_rate=rate, **parts)
        log = _trained(FoldEngine(trial, devices), trial, 0, basis, f"{state}/rate-{rate:g}")
        scores[rate] = log.rows[-1].validation_accuracy or 0.0
        print(f"{name}: score {scores[rate]:.4f}", file=sys.stderr)
    return scores


def _trained(engine: FoldEngine, fold: Fold, training: int, basis: dict, state: str) -> TrainingLog:
    """Make a training of the fold, from its newest whole state if there is one."""
    number = basis["fold"][1]
    seeds = np.random.SeedSequence([fold.seed, _ALL if number is None else number, training])
    name, seed = f"{fold.name}, seed {training}", int(seeds.generate_state(1)[0]) >> 1
    engine.begin(replace(fold, name=name, seed=seed))
    states = StateDirectory.of(
        state, 2, basis | {"seed": seed, "learning_rate": fold.learning_rate}
    )
    log, checkpoints = TrainingLog(), Checkpoints(every=fold.log_every)
    with states.locked():
        if saved := states.newest():
            engine.restore(saved.step, saved.arrays)
            log = TrainingLog.of(saved.progress)
            print(f"{name}: resumes from step {saved.step}", file=sys.stderr)
        train(engine, engine.fold, checkpoints, states, log)
    return log


def _cells(row: Row) -> list:
    figures = row.loss, row.validation_loss, row.validation_accuracy
    texts = ("" if figure is None else f"{figure:.6f}" for figure in figures)
    return [row.step, f"{row.epoch:.4f}", *texts]

"""One fold of a fine-tuning as a job: from the examples to predictions and a model."""

import hashlib
import shutil
import sys
from dataclasses import dataclass, replace
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
from mlm.finetuning.encoded_examples import EncodedTexts, encoder_of
from mlm.finetuning.fold_assignment import validation_part
from mlm.finetuning.fold_training import Fold, FoldEngine
from mlm.finetuning.sequence_model import sequence_model
from mlm.foundations.atomic import write_csv
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.terminal import show
from mlm.model.model_files import Checkpoint
from mlm.tokenizer.encoding import copy_tokenizer
from mlm.training.devices import Devices
from mlm.training.in_jax.devices import open_mesh
from mlm.training.loop import DivergedError, TrainingLog, train
from mlm.training.saved_states import StateDirectory
from mlm.training.state_basis import COMPUTING_PACKAGES, computing_code

#: What stands for the number of the fold in the seed of the training on all examples.
_ALL = 1000
#: A warning is due if more than one in so many passages is cut.
_MANY = 20


@dataclass(frozen=True)
class FoldName:
    """A fold of a run's start; without a run, `start` is the label of a published encoder, and
    without a number, the training is on all examples."""

    run: str | None
    start: str
    number: int | None

    def __str__(self) -> str:
        fold = "all" if self.number is None else f"fold {self.number}"
        return f"{self.run or 'published'}, {self.start}, {fold}"


def finetune_fold(
    name: FoldName,
    seed: int,
    section: Finetune,
    accelerator: Accelerator,
    *,
    examples: str | Path,
    model: str | Path,
    directory: str | Path,
    record: str | Path,
    state: str | Path,
) -> str:
    """Train or resume one fold, write its predictions, history and record, and return the score in
    words; of the training on all examples, write the model to use. MlmError if a training diverges,
    and after a signal, with the state saved."""
    devices = open_mesh(accelerator)
    checkpoint = Checkpoint.read(str(model), "results" if name.run else "finetune.also")
    fold = fold_of(name, seed, section, read_examples(examples), checkpoint, devices)
    basis = {
        "fold": [name.start, name.number],
        "seed": fold.seed,
        "settings": {"finetune": section.model_dump(), "accelerator": accelerator.model_dump()},
        "examples": file_sha256(examples),
        "input_ids": hashlib.sha256(fold.texts.arrays["input_ids"].tobytes()).hexdigest(),
        "model": checkpoint.sha256,
        "packages": package_versions(COMPUTING_PACKAGES["jax"]),
        "code": computing_code("jax", "mlm.finetuning.fold_training"),
    }
    tried = _scores_of_rates(fold, devices, basis, state)
    rates, best = section.learning_rate, min if fold.metric.less_is_better else max
    fold = replace(fold, learning_rate=best(tried, key=lambda rate: tried[rate]))
    engine, log = _trained(fold, devices, basis, f"{state}/fold")
    history = []
    for row in log.rows:
        figures = row.loss, row.validation_loss, row.validation_accuracy
        forms = ".6f", ".6f", fold.metric.digits
        texts = ("" if x is None else format(x, how) for x, how in zip(figures, forms, strict=True))
        history.append([row.step, f"{row.epoch:.4f}", *texts])
    columns = ["step", "epoch", "train_loss", "validation_loss", "score"]
    write_csv(Path(record).with_name("history.csv"), columns, history)
    if len(fold.test):
        write_predictions(Path(directory) / "predictions.csv", fold.predictions(engine.outputs()))
    else:
        fold.model.write(directory, engine.weights())
        longest = fold.texts.most or fold.length
        copy_tokenizer(Path(model), Path(directory), model_max_length=longest)
    FoldRecord(
        truncated=fold.texts.truncated,
        checkpoint=checkpoint.sha256,
        learning_rate=fold.learning_rate,
        tried={f"{rate:g}": fold.metric.rounded(s) for rate, s in tried.items() if len(rates) > 1},
    ).write(record)
    shutil.rmtree(state, ignore_errors=True)
    score = log.rows[-1].validation_accuracy
    return "on all examples" if score is None else f"{fold.metric.unit} {fold.metric.shown(score)}"


def fold_of(
    name: FoldName,
    seed: int,
    section: Finetune,
    examples: list[Example],
    checkpoint: Checkpoint,
    devices: Devices,
) -> Fold:
    """The fold `name` of the examples, as the checkpoint's tokenizer encodes them."""
    classes, tags = classes_of(examples, section.task), section.task == "token_classification"
    how = section.dropout, devices.precision, checkpoint.place, tags
    model = sequence_model(checkpoint.fields, classes, *how)
    encoder, longest = encoder_of(checkpoint, published=name.run is None)
    most = model.length(section.max_length, longest)
    texts = EncodedTexts.of([e.excerpt for e in examples], encoder, most, tags)
    held_out = np.array([example.fold == name.number for example in examples])
    train = np.flatnonzero(~held_out)
    seeds = np.random.SeedSequence([seed, _ALL if name.number is None else name.number, 0])
    fold = Fold(
        name=str(name),
        seed=int(seeds.generate_state(1)[0]) >> 1,
        settings=section,
        learning_rate=section.learning_rate[0],
        model=model,
        start=None if name.start == "random" else checkpoint,
        examples=examples,
        texts=texts.labelled(examples, classes, train),
        train=train,
        test=np.flatnonzero(held_out),
        batch_size=section.per_device_batch_size * devices.replicas,
    )
    print(
        f"{name}: {len(fold.train)} examples to learn from, {len(fold.test)} held out, "
        f"{texts.truncated} longer than {fold.length} tokens; {devices.replicas} x {devices.kind}",
        file=sys.stderr,
    )
    if texts.truncated * _MANY > len(examples):
        show(
            f"Warning: {name}: {texts.truncated:,} of {len(examples):,} examples are longer than "
            f"the {fold.length} tokens that the model reads (finetune.max_length, or "
            "shards.sequence_length of its pretraining), and are cut there"
        )
    return fold


def _scores_of_rates(
    fold: Fold, devices: Devices, basis: dict, state: str | Path
) -> dict[float, float]:
    """The score of each learning rate on a validation part of the fold's training examples, after a
    training on the others, if that does not diverge; 0 of a single one. MlmError if all diverge."""
    rates = fold.settings.learning_rate
    if len(rates) == 1:
        return {rates[0]: 0.0}
    part = validation_part([fold.examples[i] for i in fold.train], fold.settings.task)
    parts, scores = {"train": fold.train[~part], "test": fold.train[part]}, {}
    for rate in rates:
        name = f"{fold.name}, rate {rate:g}"
        trial = replace(fold, name=name, learning_rate=rate, **parts)
        try:
            _, log = _trained(trial, devices, basis, f"{state}/rate-{rate:g}")
            scores[rate] = log.rows[-1].validation_accuracy or 0.0
            print(f"{name}: score {fold.metric.shown(scores[rate])}", file=sys.stderr)
        except DivergedError as error:
            print(error, file=sys.stderr)
            if rate == rates[-1] and not scores:
                raise
    return scores


def _trained(
    fold: Fold, devices: Devices, basis: dict, state: str
) -> tuple[FoldEngine, TrainingLog]:
    """Train the fold, from its newest whole state if there is one."""
    engine, log = FoldEngine(fold, devices), TrainingLog()
    states = StateDirectory.of(state, 2, basis | {"learning_rate": fold.learning_rate})
    with states.locked():
        if saved := states.newest():
            engine.restore(saved.step, saved.arrays)
            log = TrainingLog.of(saved.progress)
            print(f"{fold.name}: resumes from step {saved.step}", file=sys.stderr)
        train(engine, fold, Checkpoints(every=fold.log_every), states, log)
    return engine, log

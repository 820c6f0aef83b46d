"""One pretraining, from files and settings to an exported model and its record."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mlm.config.resolution import RunConfiguration
from mlm.foundations.atomic import write_csv, write_text
from mlm.foundations.code_digests import training_code
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import PACKAGES, package_versions
from mlm.foundations.errors import listed
from mlm.foundations.terminal import show
from mlm.model.export import ExportedModel
from mlm.model.sampled_softmax import head_in_words
from mlm.tokenizer.encoding import copy_tokenizer
from mlm.training.artefacts import FinalFigures, Training, TrainingDigests, WarmStartFigures
from mlm.training.branching import Branch, branch_of
from mlm.training.devices import Devices
from mlm.training.engine import Engine, start_from_counts
from mlm.training.frameworks import engine_of, open_devices
from mlm.training.loop import PeriodicAction
from mlm.training.model_card import model_card
from mlm.training.periodic_actions import train
from mlm.training.run import Run, RunFiles, check_validation, read_checked_manifests, run_of
from mlm.training.state_basis import state_basis
from mlm.training.states import StateDirectory
from mlm.training.training_log import Row, TrainingLog


@dataclass(frozen=True)
class ResultFiles:
    """Where a run writes: the model's directory, training.csv and training.json."""

    model_directory: str
    log: str
    summary: str


@dataclass(frozen=True)
class Prepared:
    """A training before its first step: data checked, devices open, states found."""

    config: RunConfiguration
    files: RunFiles
    run: Run
    devices: Devices
    states: StateDirectory
    branch: Branch | None


def prepare(config: RunConfiguration, files: RunFiles) -> Prepared:
    """Check the data, open the devices, and find the states; MlmError unless all processes have the
    same configuration and the run can continue its parent."""
    manifests = read_checked_manifests(files, config.sequence_length)
    batch = config.pretraining.per_replica_batch_size
    devices = open_devices(config.engine, config.accelerator, batch, config.accelerator.together)
    run = run_of(config, files, manifests, devices.replicas)
    check_validation(run)
    if devices.framework == "jax":
        from mlm.training.in_jax.attention import with_attention

        devices = with_attention(devices, config.accelerator, run)
    basis = state_basis(run, files, devices)
    code = basis["code"] | training_code()
    parts = basis | {"configuration": config.model_dump(), "code": code}
    with devices.group.watched():
        devices.group.assert_same_config(parts)
    branch = None
    operation = config.operation
    if operation.parent is not None:
        parent = run_of(operation.parent, files, manifests, devices.replicas)
        basis_of_parent = basis | {"settings": parent.basis()}
        parent_states = _states_of(operation.parent, basis_of_parent)
        branch = branch_of(run, parent, parent_states, operation.continue_from.step)
    states = _states_of(config, basis, devices.group.is_rank0)
    return Prepared(config, files, run, devices, states, branch)


def _states_of(config: RunConfiguration, basis: dict, is_rank0: bool = True) -> StateDirectory:
    checkpoint = config.operation.checkpoint
    directory = f"{checkpoint.directory.rstrip('/')}/{config.name}"
    return StateDirectory.of(directory, checkpoint.keep, basis, checkpoint.keep_steps, is_rank0)


def pretrain(
    prepared: Prepared, results: ResultFiles | None, further: Sequence[PeriodicAction] = ()
) -> None:
    """Train from the last saved state, from the run's branch, or from the start, to the end, and
    write the results if they are named. `further` are actions beside logging and saving.

    Raises MlmError when stopped by a signal (after saving), on a loss that is not finite, and if
    the state cannot be written.
    """
    config, run, states = prepared.config, prepared.run, prepared.states
    devices, group = prepared.devices, prepared.devices.group
    _say(
        run,
        f"{run.model_config.model_type}, {devices.name} with {devices.replicas} replica(s), "
        f"{devices.precision}; {run.steps} steps of {run.batch_size} samples",
    )
    with group.watched():
        # All processes act at the same steps; one writes.
        with states.held():
            engine = engine_of(run, devices)
            log = _restored_or_started(prepared, engine)
            checkpoint, at_once = config.operation.checkpoint, run.pretraining.steps_per_execution
            train(engine, run.schedule, checkpoint, states, log, at_once, further)
        exported = ExportedModel(engine.weights(), run.model_config)
        group.leave()
    if results is not None:
        _write_results(prepared, results, engine, exported, log)


def _restored_or_started(prepared: Prepared, engine: Engine) -> TrainingLog:
    """The newest state in the engine, or a new start, and the log up to it."""
    run, states, branch = prepared.run, prepared.states, prepared.branch
    found = states.newest_whole() if states.is_rank0 else None
    if found is None and branch is not None and states.is_rank0:
        _say(run, f"continues run {branch.run}")
        found = branch.state()
    if (found := prepared.devices.group.broadcast(found)) is not None:
        place, engine.step, progress = found
        engine.read(place)
        show(f"{run.name}: resumes from step {engine.step} of {run.steps}")
        return TrainingLog.of(progress)
    if abandoned := states.abandoned():
        show(
            f"{run.name}: starts over. Saved states of other trainings of this run are not used; "
            f"restore their settings to resume one, or delete it:\n{listed(abandoned)}"
        )
    log = TrainingLog()
    if run.model.initialisation.embeddings == "cooccurrence":
        begun = time.monotonic()
        start_from_counts(engine, run)
        log.initialisation_seconds = time.monotonic() - begun
        _say(
            run,
            "word embeddings and output bias from counts of the train split, in "
            f"{log.initialisation_seconds:.1f} s",
        )
    if run.warm_start is not None:
        log.first_loss, _ = engine.validate()
        _say(run, f"begins with {run.warm_start.name}, at a loss of {log.first_loss:.3f} nats")
    if log != TrainingLog():
        # Whoever is killed before the first save does not count again.
        states.save(0, engine, asdict(log))
    return log


def _say(run: Run, words: str) -> None:
    print(f"{run.name}: {words}", file=sys.stderr)


def _write_results(
    prepared: Prepared,
    results: ResultFiles,
    engine: Engine,
    exported: ExportedModel,
    log: TrainingLog,
) -> None:
    config, files = prepared.config, prepared.files
    directory = Path(results.model_directory)
    exported.write(directory)
    tokenizer = Path(files.tokenizer).parent
    copy_tokenizer(tokenizer, directory, model_max_length=config.sequence_length)
    summary = _summary(prepared, engine, log, file_sha256(f"{directory}/model.safetensors"))
    if summary.without_slot:
        show(f"Warning: {summary.without_slot}")
    write_text(f"{directory}/README.md", model_card(summary, corpus=config.corpus_source))
    write_csv(results.log, Row.__dataclass_fields__, (row.cells() for row in log.rows))
    summary.write(results.summary)


def _summary(prepared: Prepared, engine: Engine, log: TrainingLog, model: str) -> Training:
    config, files, run, devices = prepared.config, prepared.files, prepared.run, prepared.devices
    section, batch, last = run.pretraining, run.batch_size, log.rows[-1]
    return Training(
        run=run.name,
        seed=run.seed,
        engine=devices.framework,
        strategy=devices.name,
        accelerator=devices.kind,
        precision=devices.precision,
        replicas=devices.replicas,
        global_batch_size=batch,
        per_replica_batch_size=section.per_replica_batch_size,
        sequence_length=config.sequence_length,
        steps=run.steps,
        epochs=round(run.steps * batch / run.train.num_samples, 6),
        steps_per_epoch=round(run.train.num_samples / batch, 6),
        tokens=run.steps * batch * config.sequence_length,
        parameters=engine.parameters,
        model_type=run.model_config.model_type,
        attend=section.attend,
        initialisation=run.model.initialisation.model_dump(),
        head=head_in_words(run.model_config.vocab_size, section.softmax_classes),
        slots=run.plan.slots,
        predictions=round(log.predictions),
        overflow=round(log.overflow),
        masking=section.masking.model_dump(),
        optimizer=section.optimizer.model_dump(),
        final=FinalFigures(
            **{
                f.name: None if (value := getattr(last, f.name)) is None else round(value, 6)
                for f in fields(FinalFigures)
            }
        ),
        digests=TrainingDigests(
            model=model,
            tokenizer=file_sha256(files.tokenizer),
            manifests={s: file_sha256(p) for s, p in sorted(files.manifests.items())},
        ),
        packages=package_versions({*PACKAGES, devices.framework}),
        shuffle_window=section.shuffle_window,
        deterministic=devices.arithmetic.get("deterministic"),
        processes=devices.arithmetic.get("processes"),
        attention=devices.arithmetic.get("attention"),
        warm_start=_warm_start(run, engine, log),
    )


def _warm_start(run: Run, engine: Engine, log: TrainingLog) -> WarmStartFigures | None:
    if (start := run.warm_start) is None:
        return None
    return WarmStartFigures(
        checkpoint=start.name,
        sha256=start.checkpoint.sha256,
        licence=start.checkpoint.licence,
        missing=engine.begun.missing,
        unexpected=engine.begun.unexpected,
        validation_loss=round(log.first_loss, 6),
    )

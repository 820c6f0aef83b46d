"""One pretraining, from files and settings to an exported model and its record."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlm.config.accelerator import Accelerator
from mlm.config.pretraining import RunConfiguration
from mlm.foundations.atomic import write_csv, write_text
from mlm.foundations.code_digests import training_code
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import NO_TENSORFLOW, PACKAGES, installed_version, package_versions
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import show
from mlm.model.masked_loss import head_in_words
from mlm.model.weights import ExportedModel
from mlm.samples.manifests import check_shards, project_root
from mlm.tokenizer.encoding import copy_tokenizer
from mlm.training.artefacts import (
    FinalFigures,
    PhaseFigures,
    Training,
    TrainingDigests,
    WarmStartFigures,
)
from mlm.training.devices import Devices
from mlm.training.engine import Engine, start_from_counts
from mlm.training.loop import PeriodicAction
from mlm.training.model_card import model_card
from mlm.training.periodic_actions import train
from mlm.training.run import Run, RunFiles, check_validation, read_manifests, run_of
from mlm.training.state_basis import Branch, branch_of, state_basis
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
    """A training before its first step: data checked, devices open, states located."""

    config: RunConfiguration
    files: RunFiles
    run: Run
    devices: Devices
    states: StateDirectory
    branch: Branch | None


def open_devices(engine: str, settings: Accelerator, batch: int, together: bool = False) -> Devices:
    """The devices that `settings` name, opened by `engine`, "tensorflow" or "jax", before all else,
    over several processes if they train `together`; `batch` is the samples in one gradient of a
    replica. Raises MlmError if there are none."""
    if engine == "jax":
        from mlm.training.in_jax.devices import open_mesh

        return open_mesh(settings, together)
    if installed_version("tensorflow") is None:
        raise MlmError(NO_TENSORFLOW)
    from mlm.training.in_tensorflow.devices import open_strategy

    return open_strategy(settings, batch)


def engine_of(run: Run, devices: Devices) -> Engine:
    """The run's engine, on devices that its framework opened."""
    if devices.framework == "jax":
        from mlm.training.in_jax.engine import JaxEngine

        return JaxEngine(run, devices)
    from mlm.training.in_tensorflow.engine import TensorFlowEngine

    return TensorFlowEngine(run, devices)


def prepare(config: RunConfiguration, files: RunFiles) -> Prepared:
    """Check the data, open the devices, and locate the states; MlmError unless all processes have
    the same configuration and the run can continue its parent."""
    manifests = read_manifests(files, config.sequence_length)
    for split, manifest in manifests.items():
        check_shards(manifest, project_root(files.manifests[split]))
    batch = config.pretraining.per_replica_batch_size
    devices = open_devices(config.engine, config.accelerator, batch, config.accelerator.together)
    run = run_of(config, files, manifests, devices.replicas)
    check_validation(run)
    if devices.framework == "jax":
        from mlm.training.in_jax.train_step import with_attention

        devices = with_attention(devices, config.accelerator, run)
    basis = state_basis(run, files, devices)
    parts = basis | {"configuration": config.model_dump(), "code": basis["code"] | training_code()}
    with devices.group.watched():
        devices.group.assert_same_config(parts)
    branch, operation = None, config.operation
    if operation.parent is not None:
        parent = run_of(operation.parent, files, manifests, devices.replicas)
        parent_states = _states_of(operation.parent, basis | {"settings": parent.basis()})
        branch = branch_of(run, parent, parent_states, operation.continue_from.step or 0)
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
    _print(
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
    state = states.newest_whole() if states.is_rank0 else None
    if state is None and branch is not None and states.is_rank0:
        _print(run, f"continues run {branch.run}")
        state = branch.state()
    if (state := prepared.devices.group.broadcast(state)) is not None:
        place, engine.step, progress = state
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
        began = time.monotonic()
        start_from_counts(engine, run)
        log.initialisation_seconds = seconds = time.monotonic() - began
        what = "word embeddings and output bias from counts of the train split"
        _print(run, f"{what}, {seconds:.1f} s")
    if run.warm_start is not None:
        log.first_loss, _ = engine.validate()
        _print(run, f"begins with {run.warm_start.name}, at a loss of {log.first_loss:.3f} nats")
    if log != TrainingLog():
        # Whoever is killed before the first save does not count again.
        states.save(0, engine, asdict(log))
    return log


def _print(run: Run, text: str) -> None:
    print(f"{run.name}: {text}", file=sys.stderr)


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
    copy_tokenizer(Path(files.tokenizer).parent, directory, model_max_length=config.longest_row)
    summary = _summary(prepared, engine, log, file_sha256(f"{directory}/model.safetensors"))
    if summary.without_slot:
        show(f"Warning: {summary.without_slot}")
    write_text(f"{directory}/README.md", model_card(summary, corpus=config.corpus_source))
    write_csv(results.log, Row.__dataclass_fields__, (row.cells() for row in log.rows))
    summary.write(results.summary)


def _summary(prepared: Prepared, engine: Engine, log: TrainingLog, model: str) -> Training:
    config, files, run, devices = prepared.config, prepared.files, prepared.run, prepared.devices
    section, batch = run.pretraining, run.batch_size
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
        epochs=round(run.schedule.epoch(run.steps), 6),
        steps_per_epoch=round(run.train.num_samples / batch, 6),
        tokens=run.schedule.tokens(run.steps),
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
        final=FinalFigures.of(log.rows[-1]),
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
        phases=[PhaseFigures(*p.values) for p in run.phases] if section.phases else None,
    )


def _warm_start(run: Run, engine: Engine, log: TrainingLog) -> WarmStartFigures | None:
    start, begun = run.warm_start, engine.begun
    if start is None or begun is None:
        return None
    return WarmStartFigures(
        checkpoint=start.name,
        sha256=start.checkpoint.sha256,
        licence=start.checkpoint.licence,
        missing=begun.missing,
        unexpected=begun.unexpected,
        validation_loss=round(log.first_loss or 0.0, 6),
    )

"""One pretraining, from files and settings to an exported model and its record."""

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.pretraining import RunConfiguration
from mlm.foundations.atomic import write_csv, write_text
from mlm.foundations.code_digests import training_code
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import NO_TENSORFLOW, PACKAGES, installed_version, package_versions
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import show
from mlm.model.cooccurrence import start_from_counts
from mlm.model.model_files import write_exported
from mlm.samples.manifests import check_shards, project_root
from mlm.tokenizer.encoding import copy_tokenizer
from mlm.training.artefacts import (
    FinalFigures,
    PhaseFigures,
    Training,
    TrainingDigests,
    WarmStartFigures,
)
from mlm.training.attention_kernel import with_attention
from mlm.training.devices import Devices
from mlm.training.engine import Engine
from mlm.training.loop import Row, TrainingLog, train
from mlm.training.model_card import model_card
from mlm.training.resolved_run import Run, RunFiles, read_manifests, run_of
from mlm.training.saved_states import StateDirectory
from mlm.training.state_basis import check_branch, deciding_settings, state_basis

#: Settings that the record of a training has.
_OF_RECIPE = {"seed", "steps", "per_replica_batch_size", "shuffle_window", "masking", "optimizer"}


@dataclass(frozen=True)
class Prepared:
    """A training before its first step: data checked, devices open, saved states located.
    `parent_states` are those of the run that it continues, if any."""

    config: RunConfiguration
    files: RunFiles
    run: Run
    devices: Devices
    states: StateDirectory
    parent_states: StateDirectory | None


def open_devices(engine: str, settings: Accelerator, batch: int, together: bool = False) -> Devices:
    """Open the devices of `settings` in `engine` before anything else uses it, since it reads its
    settings once. "jax" opens CPUs, GPUs or TPUs, and joins the other processes that train
    `together`; "tensorflow" opens CPUs or TPUs, and divides the `batch`, the samples in one
    gradient of a replica, among the CPU's threads. Raises MlmError without such devices."""
    if engine == "jax":
        from mlm.training.in_jax.devices import open_mesh

        return open_mesh(settings, together)
    if installed_version("tensorflow") is None:
        raise MlmError(NO_TENSORFLOW)
    from mlm.training.in_tensorflow.devices import open_strategy

    return open_strategy(settings, batch)


def engine_of(run: Run, devices: Devices) -> Engine:
    """Return the run's engine in the framework that opened `devices`, and import only that one."""
    if devices.framework == "jax":
        from mlm.training.in_jax.engine import JaxEngine

        return JaxEngine(run, devices)
    from mlm.training.in_tensorflow.engine import TensorFlowEngine

    return TensorFlowEngine(run, devices)


def prepare(config: RunConfiguration, files: RunFiles) -> Prepared:
    """Check the data, open the devices, and locate the states. Raises MlmError unless all processes
    have the same configuration, and the run can continue its parent, if it has one."""
    manifests = read_manifests(files, config.sequence_length)
    for split, manifest in manifests.items():
        check_shards(manifest, project_root(files.manifests[split]))
    batch = config.pretraining.per_replica_batch_size
    devices = open_devices(config.engine, config.accelerator, batch, config.accelerator.together)
    run = run_of(config, files, manifests, devices.replicas)
    # cuDNN needs even rows; of phases, it gets those that are.
    row = min((phase.plan.sequence_length for phase in run.phases), key=lambda length: length % 2)
    devices = with_attention(devices, config.accelerator, run.architecture, row)
    # States depend on `basis`; processes must also agree on settings and code that change no bits.
    basis = state_basis(run, files, devices)
    parts = basis | {"configuration": config.model_dump(), "code": basis["code"] | training_code()}
    with devices.group.watched():
        devices.group.assert_same_config(parts)
    states, parent_states = _states_of(config, basis, devices.group.is_rank0), None
    if (parent := config.operation.parent) is not None:
        parent_run = run_of(parent, files, manifests, devices.replicas)
        check_branch(run, parent_run, config.operation.continue_from.step or 0)
        parent_states = _states_of(parent, basis | {"settings": deciding_settings(parent_run)})
    return Prepared(config, files, run, devices, states, parent_states)


def _states_of(config: RunConfiguration, basis: dict, is_rank0: bool = True) -> StateDirectory:
    checkpoint = config.operation.checkpoint
    directory = f"{checkpoint.directory.rstrip('/')}/{config.name}"
    return StateDirectory.of(directory, checkpoint.keep, basis, checkpoint.keep_steps, is_rank0)


def pretrain(prepared: Prepared, directory: str | Path | None) -> None:
    """Train to the last step: from the newest saved state, else from that of the run that this one
    continues, else from the start. Write model/, training.csv and training.json into `directory`,
    unless it is None. Raises MlmError as `train` does, and if a state cannot be written."""
    config, run, states = prepared.config, prepared.run, prepared.states
    devices, group = prepared.devices, prepared.devices.group
    print(
        f"{run.name}: {run.model_config.model_type}, {devices.name} with {devices.replicas} "
        f"replica(s), {devices.precision}; {run.steps} steps of {run.batch_size} samples",
        file=sys.stderr,
    )
    with group.watched():
        # All processes make the same steps; rank 0 alone saves states.
        with states.locked():
            engine = engine_of(run, devices)
            log = _restored_or_started(prepared, engine)
            train(engine, run, config.operation.checkpoint, states, log)
        weights = engine.weights()
        group.leave()
    if directory is not None:
        _write_results(prepared, Path(directory), engine, weights, log)


def _restored_or_started(prepared: Prepared, engine: Engine) -> TrainingLog:
    """Restore the newest state, or one of the run that this one continues, or start anew; return
    the log up to that step."""
    run, states, state = prepared.run, prepared.states, None
    if states.is_rank0:
        state = states.newest()
        if state is None and prepared.parent_states is not None:
            start = prepared.config.operation.continue_from
            show(f"{run.name}: continues run {start.run}")
            state = prepared.parent_states.branch(start.step or 0)
    # Rank 0 alone reads states; `restore` sends the arrays to the other processes.
    progress = state and [state.step, state.progress]
    if (progress := prepared.devices.group.broadcast(progress)) is not None:
        step, saved = progress
        engine.restore(step, state.arrays if state else None)
        show(f"{run.name}: resumes from step {step} of {run.steps}")
        return TrainingLog.of(saved)
    if abandoned := states.abandoned():
        show(
            f"{run.name}: starts over. Saved states of other trainings of this run are not used; "
            f"restore their settings to resume one, or delete it:\n{listed(abandoned)}"
        )
    log, counted = TrainingLog(), run.model.initialisation.embeddings == "cooccurrence"
    if counted:
        began = time.monotonic()
        start_from_counts(engine, run)
        what = f"{run.name}: word embeddings and output bias from counts of the train split"
        print(f"{what}, {time.monotonic() - began:.1f} s", file=sys.stderr)
    if run.warm_start is not None:
        log.first_loss, _ = engine.validate()
        start = f"{run.name}: begins with {run.warm_start.name}"
        print(f"{start}, at a loss of {log.first_loss:.3f} nats", file=sys.stderr)
    if counted or run.warm_start is not None:
        # Saved now, so that a kill repeats neither the counts nor the first validation.
        states.save(0, engine.saved, asdict(log))
    return log


def _write_results(
    prepared: Prepared,
    directory: Path,
    engine: Engine,
    weights: dict[str, np.ndarray],
    log: TrainingLog,
) -> None:
    config, tokenizer, model = prepared.config, prepared.files.tokenizer, directory / "model"
    write_exported(model, weights, prepared.run.model_config)
    copy_tokenizer(Path(tokenizer).parent, model, model_max_length=config.longest_row)
    summary = _summary(prepared, engine, log, file_sha256(model / "model.safetensors"))
    if summary.without_slot:
        show(f"Warning: {summary.without_slot}")
    write_text(model / "README.md", model_card(summary, corpus=config.corpus_source))
    rows = (row.cells() for row in log.rows)
    write_csv(directory / "training.csv", Row.__dataclass_fields__, rows)
    summary.write(directory / "training.json")


def _summary(prepared: Prepared, engine: Engine, log: TrainingLog, model: str) -> Training:
    config, files, run, devices = prepared.config, prepared.files, prepared.run, prepared.devices
    section, start, begun = run.pretraining, run.warm_start, engine.begun
    return Training(
        run=run.name,
        **section.model_dump(include=_OF_RECIPE),
        engine=devices.framework,
        accelerator=devices.kind,
        precision=devices.precision,
        replicas=devices.replicas,
        global_batch_size=run.batch_size,
        sequence_length=config.sequence_length,
        epochs=round(run.epoch(run.steps), 6),
        tokens=run.tokens(run.steps),
        parameters=engine.parameter_count,
        model_type=run.model_config.model_type,
        initialisation=run.model.initialisation.model_dump(),
        predictions=round(log.predictions),
        overflow=round(log.overflow),
        final=FinalFigures.of(log.rows[-1]),
        digests=TrainingDigests(
            model=model,
            tokenizer=file_sha256(files.tokenizer),
            manifests={s: file_sha256(p) for s, p in sorted(files.manifests.items())},
        ),
        packages=package_versions({*PACKAGES, devices.framework}),
        arithmetic=devices.arithmetic,
        warm_start=start
        and begun
        and WarmStartFigures(
            checkpoint=start.name,
            sha256=start.checkpoint.sha256,
            licence=start.checkpoint.licence,
            missing=begun.missing,
            unexpected=begun.unexpected,
            validation_loss=round(log.first_loss or 0.0, 6),
        ),
        phases=[PhaseFigures(*p.values) for p in run.phases] if section.phases else None,
    )

"""A few steps of a run's own training, on the samples of the rehearsal."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlm.check.data_rehearsal import DataMeasured
from mlm.check.stopwatch import Took, timed
from mlm.config.accelerator import Accelerator
from mlm.config.memory import parameters
from mlm.config.resolution import Settings
from mlm.config.run import RunConfiguration
from mlm.tokenizer.tokenizer_settings import expected_vocabulary
from mlm.training.engine import Devices, Engine, engine_of
from mlm.training.run import RunFiles, read_manifests, run_of

#: Seconds, and steps, for which steps are timed.
_TIMED_SECONDS, _TIMED_STEPS = 1.0, 50
#: Samples of a timed validation.
_VALIDATED = 100
#: Floating-point operations of the largest step that is timed: some seconds of two processors.
_LARGEST_STEP = 2e11


@dataclass
class TrainingMeasured:
    """What a run's training takes: `begun` once, to build and to compile; `step` an update of a
    whole batch, `validated` a sample of validation, `counted` counts of the sample's text.

    `parts` is how many times smaller than a run's the batch was that was timed.
    """

    kind: str
    replicas: int
    batch: int
    parts: float
    begun: Took = field(default_factory=Took)
    counted: Took = field(default_factory=Took)
    step: Took = field(default_factory=Took)
    validated: Took = field(default_factory=Took)
    saved: Took = field(default_factory=Took)
    state_bytes: int = 0
    model_bytes: int = 0


def accelerator_alone(settings: Settings) -> Accelerator:
    """The devices of one process: others are not started for a rehearsal."""
    return Accelerator.of_param(settings["accelerator"] | {"processes": None, "start": "here"})


def rehearse_training(
    settings: Settings, run: str, data: DataMeasured, devices: Devices, directory: Path
) -> TrainingMeasured:
    """Make a few updates of run `run` on `devices`, one validation and one save.

    Where a batch is too large for moments, or for the sample, a part of it is timed. Raises
    MlmError as the training does where the model cannot be built.
    """
    own = RunConfiguration.of(settings, run)
    accumulated = own.pretraining.optimizer.gradient_accumulation_steps
    whole = own.pretraining.per_replica_batch_size
    size = _fitting(settings, own, data, whole, devices.replicas)
    if devices.framework == "tensorflow" and devices.kind == "cpu":
        # The devices may have been opened for another run's batch.
        devices = replace(devices, lanes=accelerator_alone(settings).lanes(size))
    files = RunFiles(
        str(data.tokenizer), {s: str(data.manifests[s]) for s in ("train", "validation")}
    )
    section = own.pretraining
    timed_run = own.with_values(
        pretraining={
            "per_replica_batch_size": size,
            "optimizer": section.optimizer.model_copy(update={"gradient_accumulation_steps": 1}),
            "validation": section.validation.model_copy(update={"samples": _VALIDATED}),
            # Long enough for whatever the schedule asks.
            **{"steps": 1_000_000, "epochs": None, "tokens": None},
        },
    )
    measured = TrainingMeasured(
        kind=devices.kind,
        replicas=devices.replicas,
        batch=whole * accumulated * devices.replicas,
        parts=whole * accumulated / size,
    )
    with timed() as measured.begun:
        manifests = read_manifests(files, own.sequence_length)
        resolved = run_of(timed_run, files, manifests, devices.replicas)
        engine = engine_of(resolved, devices)
        engine.advance(1)
        engine.validate()
    if resolved.model.initialisation.embeddings == "cooccurrence":
        with timed() as measured.counted:
            engine.start_from_counts()
    # Of a device that is waited for, the clock's time is what counts.
    threads = settings["accelerator"]["cpu_threads"] if devices.kind == "cpu" else None
    measured.step = (
        _of_one_step(engine, resolved.pretraining.steps_per_execution, threads) * measured.parts
    )
    with timed(threads) as validation:
        engine.validate()
    samples = min(_VALIDATED, manifests["validation"].num_samples)
    measured.validated = validation * (1 / max(1, samples))
    state, model = directory / "state", directory / "model"
    state.mkdir(parents=True)
    with timed() as measured.saved:
        engine.state.write(str(state))
    engine.exported().write(str(model))
    measured.state_bytes, measured.model_bytes = bytes_below(state), bytes_below(model)
    return measured


def _fitting(
    settings: Settings, own: RunConfiguration, data: DataMeasured, whole: int, replicas: int
) -> int:
    """How many samples of a replica's batch are timed."""
    vocabulary = expected_vocabulary(settings["tokenizer"])
    weights = parameters(own.model.model_dump(), vocabulary, own.sequence_length)
    most = int(_LARGEST_STEP / (6 * weights * own.sequence_length))
    return max(1, min(whole, most, data.samples // replicas))


def _of_one_step(engine: Engine, at_once: int, threads: int | None) -> Took:
    """The mean of as many updates as there is time for."""
    begun, made = time.monotonic(), 0
    with timed(threads) as took:
        while made < _TIMED_STEPS and time.monotonic() - begun < _TIMED_SECONDS:
            engine.advance(at_once)
            made += at_once
    return took * (1 / made)


def bytes_below(directory: Path) -> int:
    """The sizes of all files below `directory`."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def shape_of(settings: Settings, run: str) -> Any:
    """What decides how long a step of run `run` takes; runs of the same shape are timed once."""
    own = RunConfiguration.of(settings, run)
    pretraining = own.pretraining.model_dump()
    return (
        own.engine,
        own.model.model_dump(),
        pretraining["masking"],
        pretraining["optimizer"]["name"],
        *(
            pretraining[key]
            for key in ("per_replica_batch_size", "attend", "rematerialise", "shard_optimizer")
        ),
        pretraining["steps_per_execution"],
        pretraining["optimizer"]["gradient_accumulation_steps"],
    )

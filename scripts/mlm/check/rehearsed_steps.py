"""A run makes a few updates, by which its time is estimated."""

import gc
import time
from dataclasses import dataclass

from mlm.config.memory import parameters
from mlm.config.resolution import RunConfiguration, Settings
from mlm.config.tokenizer import expected_vocabulary
from mlm.foundations.errors import MlmError
from mlm.training.engine import engine_of, open_devices
from mlm.training.run import RunFiles, read_manifests, run_of

#: Seconds, and steps, for which steps are timed.
_TIMED_SECONDS, _TIMED_STEPS = 1.0, 50
#: Floating-point operations of the largest step that is timed: some seconds of two processors.
_LARGEST_STEP = 2e11


@dataclass(frozen=True)
class Steps:
    """Seconds of a training: `begun` once, `step` for a sample of an update. Those of another run
    follow from the estimated `size` of its model."""

    replicas: int
    size: int
    begun: float = 0.0
    step: float = 0.0
    parameters: int = 0


def estimated_size(settings: Settings, run: RunConfiguration) -> int:
    """About the parameters of the run's model."""
    vocabulary = expected_vocabulary(settings)
    return parameters(run.model, vocabulary, run.sequence_length)


def rehearse_steps(
    settings: Settings, run: RunConfiguration, files: RunFiles, warnings: list[str]
) -> Steps | None:
    """Make a few updates of `run`, with a batch that is neither too large for moments nor for the
    sample; None, with a warning, if this machine cannot."""
    section, length = run.pretraining, run.sequence_length
    manifests, estimated = read_manifests(files, length), estimated_size(settings, run)
    most = min(int(_LARGEST_STEP / (6 * estimated * length)), manifests["train"].num_samples // 8)
    size = max(1, min(section.per_replica_batch_size, most))
    timed = run.with_values(
        pretraining={
            "per_replica_batch_size": size,
            "optimizer": section.optimizer.model_copy(update={"gradient_accumulation_steps": 1}),
            # Long enough for whatever the schedule asks.
            **{"steps": 1_000_000, "epochs": None, "tokens": None},
        }
    )
    try:
        devices = open_devices(run.engine, run.accelerator, size)
    except MlmError as error:
        warnings.append(
            f"{run.name}: its steps cannot be timed here; `snakemake --cores 2 preflight` compiles "
            f"them for a TPU or GPU and says whether they fit. {error}"
        )
        return None
    begin = time.monotonic()
    engine = engine_of(run_of(timed, files, manifests, devices.replicas), devices)
    if run.model.initialisation.embeddings == "cooccurrence":
        engine.start_from_counts()
    engine.advance(1)
    begun, made = time.monotonic(), 0
    while made < _TIMED_STEPS and time.monotonic() - begun < _TIMED_SECONDS:
        engine.advance(1)
        made += 1
    step = (time.monotonic() - begun) / made / size
    found = Steps(devices.replicas, estimated, begun - begin, step, engine.parameters)
    del engine
    # Left to the end of the process, TensorFlow's iterators complain that Python is gone.
    gc.collect()
    return found

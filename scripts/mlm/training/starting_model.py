"""A run's model before its first step."""

from mlm.config.resolution import RunConfiguration
from mlm.foundations.errors import MlmError
from mlm.model.export import ExportedModel
from mlm.training.engine import engine_of, open_devices
from mlm.training.run import RunFiles, read_checked_manifests, run_of


def starting_model(
    config: RunConfiguration, files: RunFiles, checkpoint: str | None = None
) -> ExportedModel:
    """The model that a training from the start begins with; MlmError if its `checkpoint` is no
    longer of this sha256, and as for `run_of`."""
    manifests = read_checked_manifests(files, config.sequence_length)
    devices = open_devices(config.engine, config.accelerator, 1)
    run = run_of(config, files, manifests, devices.replicas)
    if checkpoint and (found := run.warm_start.checkpoint.sha256) != checkpoint:
        raise MlmError(
            f"model.start_from: {run.warm_start.name} is not what {config.name} started from: "
            f"sha256 {found:.12}… now, {checkpoint:.12}… then. Put its files back, or train again"
        )
    engine = engine_of(run, devices)
    if run.model.initialisation.embeddings == "cooccurrence":
        engine.start_from_counts()
    return engine.exported()

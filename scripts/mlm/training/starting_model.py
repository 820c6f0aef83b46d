"""A run's model before its first step."""

from mlm.config.resolution import RunConfiguration
from mlm.model.export import ExportedModel
from mlm.training.engine import engine_of, open_devices
from mlm.training.run import RunFiles, read_checked_manifests, run_of


def starting_model(config: RunConfiguration, files: RunFiles) -> ExportedModel:
    """The model that a training from the start begins with; MlmError as for `run_of`."""
    manifests = read_checked_manifests(files, config.sequence_length)
    devices = open_devices(config.engine, config.accelerator, 1)
    run = run_of(config, files, manifests, devices.replicas)
    engine = engine_of(run, devices)
    if run.model.initialisation.embeddings == "cooccurrence":
        engine.start_from_counts()
    return engine.exported()

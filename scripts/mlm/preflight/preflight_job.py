"""The preflight as a job: from a lowered step and settings to preflight.json."""

from mlm.preflight.checks import PreflightFiles, PreflightSettings, preflight
from mlm.preflight.data_readiness import Reach
from mlm.pretraining.length import number_of_updates
from mlm.shards.manifests import Manifest


def preflight_run(
    settings: PreflightSettings,
    files: PreflightFiles,
    *,
    pretraining: dict,
    tpu_name: str,
    state_directory: str,
    at_once: int,
) -> None:
    """Write the preflight of one run, with `at_once` compilations side by side.

    `pretraining` holds the run's `steps`, `epochs` and `tokens`.
    """
    manifest = Manifest.read(files.manifest)

    def steps_for(global_batch: int) -> int:
        return number_of_updates(
            pretraining, manifest.num_samples, manifest.sequence_length, global_batch
        )

    preflight(settings, files, Reach(tpu_name, state_directory), steps_for, at_once=at_once)

"""Is the data ready for a target: enough shards and samples, and paths that it can reach."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlm.accelerators.findings import ERROR, WARNING, Finding
from mlm.samples.manifests import Manifest


@dataclass(frozen=True)
class Reach:
    """From where the run's data is read and its state written.

    `tpu_name` is "local" on a TPU VM, whose own processes read and write; anything else is a
    TPU node, whose workers do and which has no disk of its own. `state_directory` is where
    checkpoints go.
    """

    tpu_name: str
    state_directory: str


def check_data(
    manifest: Manifest,
    reach: Reach,
    engine: str | None,
    *,
    target: str,
    replicas: int,
    hosts: int,
    batch: int,
    accumulated: int,
) -> list[Finding]:
    """What the train split lacks for a target of `replicas` replicas on `hosts` hosts.

    Each replica takes `accumulated` batches of `batch` samples a step.
    """
    found = []
    taken = replicas * batch * accumulated
    if manifest.num_samples < taken:
        largest = manifest.num_samples // (replicas * accumulated)
        found.append(
            Finding(
                "full_global_batch",
                ERROR,
                f"the train split has {manifest.num_samples} samples; one step of {replicas} "
                f"replicas takes {taken}. "
                + (
                    f"Lower pretraining.per_replica_batch_size from {batch} to {largest} or less"
                    if largest
                    else "Not even a batch of 1 is filled: take a smaller slice, or accumulate less"
                ),
                target=target,
            )
        )
    # TensorFlow gives each worker shards of its own.
    if engine != "jax" and len(manifest.shards) < hosts:
        found.append(
            Finding(
                "shards_for_workers",
                ERROR,
                f"the train split has {len(manifest.shards)} shards for {hosts} input workers "
                f"(hosts); raise shards.count.train to {hosts} or more",
                target=target,
            )
        )
    return found + [
        Finding("readable_paths", severity, message, target=target)
        for severity, message in _unreachable(manifest, reach, hosts)
    ]


def _unreachable(manifest: Manifest, reach: Reach, hosts: int) -> Iterator[tuple[str, str]]:
    """Severity and message of each path that a host of the target cannot read or write."""
    local = [s.path for s in manifest.shards if not s.path.startswith("gs://")]
    state_is_local = not reach.state_directory.startswith("gs://")
    if reach.tpu_name == "local":
        if hosts > 1 and (local or state_is_local):
            yield (
                WARNING,
                f"{hosts} hosts read the shards and write the state, each on its own disk: put "
                "both on gs:// or on a file system that all hosts share",
            )
        return
    if local:
        yield (
            ERROR,
            f"{len(local)} of {len(manifest.shards)} shards are on a local disk (the first is "
            f"{local[0]}), which the TPU node {reach.tpu_name!r} cannot read. Keep the shards on "
            "gs:// (shards.prebuilt), or run on a TPU VM (accelerator.tpu.name: local)",
        )
    if state_is_local:
        yield (
            ERROR,
            f"pretraining.checkpoint.directory is {reach.state_directory}, a local directory; a "
            "TPU node writes its state from the workers. Name a gs:// prefix",
        )

"""Is the data ready for a target: enough shards and samples, and paths that it can reach."""

from mlm.accelerators.artefacts import ERROR, WARNING, Finding, Step, Target
from mlm.samples.manifests import Manifest


def check_data(
    manifest: Manifest, step: Step, target: Target, state_directory: str
) -> list[Finding]:
    """What the train split lacks for the replicas and hosts of `target`, which write their state to
    `state_directory`."""
    found = []

    def find(rule: str, message: str, severity: str = ERROR) -> None:
        found.append(Finding(rule, severity, message, target=target.target))

    if manifest.num_samples < target.global_batch_size:
        batch = step.per_replica_batch_size
        largest = manifest.num_samples * batch // target.global_batch_size
        find(
            "full_global_batch",
            f"the train split has {manifest.num_samples} samples; one step of {target.replicas} "
            f"replicas takes {target.global_batch_size}. "
            + (
                f"Lower pretraining.per_replica_batch_size from {batch} to {largest} or less"
                if largest
                else "Not even a batch of 1 is filled: take a smaller slice, or accumulate less"
            ),
        )
    # TensorFlow gives each worker shards of its own.
    if step.engine != "jax" and len(manifest.shards) < target.hosts:
        find(
            "shards_for_workers",
            f"the train split has {len(manifest.shards)} shards for {target.hosts} input workers "
            f"(hosts); raise shards.count.train to {target.hosts} or more",
        )
    local = any(not shard.path.startswith("gs://") for shard in manifest.shards)
    if target.hosts > 1 and (local or not state_directory.startswith("gs://")):
        find(
            "readable_paths",
            f"{target.hosts} hosts read the shards and write the state, each on its own disk: "
            "put both on gs:// or on a file system that all hosts share",
            WARNING,
        )
    return found

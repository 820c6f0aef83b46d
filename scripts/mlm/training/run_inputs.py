"""What a run is made from: its configuration and files, checked and resolved together."""

from pathlib import Path

from mlm.config.run import RunConfiguration
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.model.model_configuration import model_configuration
from mlm.samples.manifests import Manifest, check_sequence_length, check_shards, shards_root
from mlm.samples.masking import VALIDATION_MASKING, masking_plan
from mlm.samples.stored_batches import ShardFiles
from mlm.tokenizer.encoding import Encoder
from mlm.training.optimisation import with_lengths
from mlm.training.run import Run, RunFiles, batch_size


def run_of(
    config: RunConfiguration,
    files: RunFiles,
    manifests: dict[str, Manifest],
    replicas: int,
    with_model: bool = True,
    encoder: Encoder | None = None,
) -> Run:
    """The run with every setting resolved against its data and the number of replicas; without its
    model for those who ask for samples and masks alone. MlmError if the split is smaller than an
    update."""
    section, length = config.pretraining, config.sequence_length
    encoder = encoder or Encoder.load(files.tokenizer)
    batch, samples = batch_size(section, replicas), manifests["train"].num_samples
    if batch > samples:
        raise MlmError(
            f"pretraining: one step takes {batch} samples (batch × replicas × accumulation), but "
            f"the train split has only {samples}. Lower pretraining.per_replica_batch_size"
        )
    steps = section.updates(samples, length, batch)
    settled = {
        "steps": steps,
        "seed": config.seed if section.seed is None else section.seed,
        "optimizer": with_lengths(section.optimizer, steps),
    }
    plan = masking_plan(
        section.masking,
        encoder,
        files.tokenizer,
        length,
        holes=config.holes,
        manifest=files.manifests["train"],
    )
    shards = {s: ShardFiles.of(m, shards_root(m, files.manifests[s])) for s, m in manifests.items()}
    return Run(
        name=config.name,
        model=config.model,
        pretraining=section.model_copy(update=settled),
        plan=plan,
        validation_plan=masking_plan(VALIDATION_MASKING, encoder, files.tokenizer, length),
        train=shards["train"],
        validation=shards["validation"],
        model_config=(
            model_configuration(config.model, encoder, length, section.engine)
            if with_model
            else None
        ),
        replicas=replicas,
    )


def read_checked_manifests(files: RunFiles, sequence_length: int) -> dict[str, Manifest]:
    """The manifests of `read_manifests`; MlmError if a shard is not what they say."""
    manifests = read_manifests(files, sequence_length)
    for split, manifest in manifests.items():
        check_shards(manifest, shards_root(manifest, files.manifests[split]))
    return manifests


def read_manifests(files: RunFiles, sequence_length: int) -> dict[str, Manifest]:
    """The manifests of the run; MlmError unless they fit the tokenizer and the length. No shard is
    read."""
    manifests = {split: Manifest.read(path) for split, path in files.manifests.items()}
    # If it is damaged, the shards are not to blame.
    record = Path(files.tokenizer).with_name("tokenizer_stats.json")
    if record.is_file():
        check_outputs(record, [files.tokenizer])
    tokenizer_sha256 = file_sha256(files.tokenizer)
    for split, manifest in manifests.items():
        if not manifest.num_samples:
            raise MlmError(
                f"{files.manifests[split]}: the {split} split has no samples; at least one is "
                "needed"
            )
        check_sequence_length(manifest, sequence_length)
        if manifest.tokenizer_sha256 not in (None, tokenizer_sha256):
            raise MlmError(
                f"{files.manifests[split]}: its shards were made with another tokenizer "
                f"({manifest.tokenizer_sha256[:12]}…) than {files.tokenizer} "
                f"({tokenizer_sha256[:12]}…). To have them made again: "
                f"rm -r results/shards/{split}, then the same snakemake command"
            )
    return manifests

"""What a run is made from: its settings and files, checked and resolved against each other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mlm.config.families import engine_for
from mlm.config.resolution import Settings, model_of_run, run_section
from mlm.foundations.artefacts import check_outputs
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, remedy
from mlm.model.model_configuration import ModelRequest, model_configuration
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.holes import Holes
from mlm.samples.manifests import Manifest, check_sequence_length, check_shards, shards_root
from mlm.samples.masking_plan import masking_plan
from mlm.samples.stored_batches import ShardFiles
from mlm.tokenizer.encoding import Encoder
from mlm.training.length import number_of_updates
from mlm.training.optimisation import OptimizerSettings
from mlm.training.resolved_run import VALIDATION_MASKING, Pretraining


@dataclass(frozen=True)
class RunSettings:
    """What the configuration says of one run, in resolved sections.

    `parent` are the settings of the run that it continues, if any. `holes` is the file that says
    what the run is trained without, None where it forgets nothing.
    """

    name: str
    model: dict
    pretraining: dict
    accelerator: dict
    seed: int
    sequence_length: int
    corpus: str
    parent: "RunSettings | None" = None
    holes: str | None = None

    @classmethod
    def of(cls, settings: Settings, run: str) -> Self:
        """Those of `run` in the whole configuration, but for `parent` and `holes`."""
        return cls(
            name=run,
            model=model_of_run(settings, run),
            pretraining=run_section(settings, run, "pretraining"),
            accelerator=settings["accelerator"],
            seed=settings["seed"],
            sequence_length=settings["shards"]["sequence_length"],
            corpus=settings["corpus"]["source"],
        )

    @property
    def engine(self) -> str:
        """What computes the run, "tensorflow" or "jax"."""
        family = ModelRequest.of(self.model).model_type
        return engine_for(self.pretraining["engine"], family)


@dataclass(frozen=True)
class RunFiles:
    """What a run reads: tokenizer.json, with its other files beside it, and the manifests."""

    tokenizer: str
    manifests: dict[str, str]


def read_checked_manifests(files: RunFiles, sequence_length: int) -> dict[str, Manifest]:
    """The manifests of the run, checked against the tokenizer, the length and the shards.

    Raises MlmError before anything is trained on data that is not what it claims to be.
    """
    manifests = read_manifests(files, sequence_length)
    for split, manifest in manifests.items():
        check_shards(manifest, shards_root(manifest, files.manifests[split]))
    return manifests


def read_manifests(files: RunFiles, sequence_length: int) -> dict[str, Manifest]:
    """The manifests of the run, checked against the tokenizer and the length: no shard is read.

    Raises MlmError where they do not belong together.
    """
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
            mended = (
                "Name the tokenizer that they were made with in tokenizer.pretrained.path"
                if manifest.corpus_sha256 is None
                else f"To have them made again: rm -r results/shards/{split}, then the same "
                "snakemake command"
            )
            raise MlmError(
                f"{files.manifests[split]}: its shards were made with another tokenizer "
                f"({manifest.tokenizer_sha256[:12]}…) than {files.tokenizer} "
                f"({tokenizer_sha256[:12]}…). {mended}"
            )
    return manifests


def number_of_steps(section: dict, samples: int, sequence_length: int, batch: int) -> int:
    """Updates that `steps`, `epochs` or `tokens` of the configuration come to.

    A last batch that an epoch only partly fills counts as one. Raises MlmError for a global
    batch that is larger than the split.
    """
    if batch > samples:
        raise MlmError(
            f"pretraining: one step takes {batch} samples (batch × replicas × accumulation), but "
            f"the train split has only {samples}. Lower pretraining.per_replica_batch_size"
        )
    return number_of_updates(section, samples, sequence_length, batch)


def pretraining_of(
    settings: RunSettings,
    files: RunFiles,
    manifests: dict[str, Manifest],
    replicas: int,
    with_model: bool = True,
    encoder: Encoder | None = None,
) -> Pretraining:
    """The run with every setting resolved against its data and the number of replicas.

    Without its model, whose configuration takes transformers and a second, for those who ask
    which samples it is shown and how they are masked. `encoder` is that of the tokenizer, where it
    is loaded already.
    """
    section = settings.pretraining
    encoder = encoder or Encoder.load(files.tokenizer)
    request = ModelRequest.of(settings.model)
    length = settings.sequence_length
    batch = (
        section["per_replica_batch_size"]
        * replicas
        * section["optimizer"]["gradient_accumulation_steps"]
    )
    steps = number_of_steps(section, manifests["train"].num_samples, length, batch)
    plan = masking_plan(section["masking"], encoder, files.tokenizer, length)
    shards = {s: ShardFiles.of(m, shards_root(m, files.manifests[s])) for s, m in manifests.items()}
    return Pretraining(
        name=settings.name,
        model_config=(
            model_configuration(request, encoder, length, section["engine"]) if with_model else None
        ),
        initialisation=request.initialisation,
        seed=settings.seed if section["seed"] is None else section["seed"],
        plan=plan,
        validation_plan=masking_plan(VALIDATION_MASKING, encoder, files.tokenizer, length),
        train=shards["train"],
        validation=shards["validation"],
        optimizer=OptimizerSettings.of(section["optimizer"], steps),
        per_replica_batch_size=section["per_replica_batch_size"],
        steps=steps,
        shuffle_window=section["shuffle_window"],
        validation_every=section["validation"]["every"],
        validation_samples=section["validation"]["samples"],
        log_every=section["log_every"],
        steps_per_execution=section["steps_per_execution"],
        checkpoint_every=section["checkpoint"]["every"],
        keep_steps=tuple(section["checkpoint"].get("keep_steps", ())),
        attend=section["attend"],
        rematerialise=section["rematerialise"],
        shard_optimizer=section["shard_optimizer"],
        profile=tuple(section["profile"]) if section["profile"] else None,
        export_every_epochs=section["export_every_epochs"],
        holes=holes_in(settings.holes, files, encoder) if settings.holes else None,
    )


def holes_in(path: str, files: RunFiles, encoder: Encoder) -> Holes:
    """The holes that the file `path` names, in the samples of the train split.

    Raises MlmError where they were found in other samples.
    """
    found = HolesOfRun.read(path)
    if found.manifest != file_sha256(files.manifests["train"]):
        raise MlmError(
            f"{path}: its holes are in other samples than those of {files.manifests['train']}. "
            f"{remedy(path)}"
        )
    return Holes.of(found.holes, encoder.special_ids.pad)

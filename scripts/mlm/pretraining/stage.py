"""One pretraining as a job: from files and settings to an exported model and its record."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from mlm.batches.input_pipeline import ShardFiles
from mlm.batches.masking_settings import masking_plan
from mlm.foundations.atomic import write_text
from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.errors import MlmError
from mlm.preflight.gate import require_passed
from mlm.pretraining.accelerators import Accelerator, AcceleratorSettings, open_accelerator
from mlm.pretraining.checkpointing import StateDirectory
from mlm.pretraining.export import export_model
from mlm.pretraining.model_card import model_card
from mlm.pretraining.models import ModelRequest, model_configuration, number_of_parameters
from mlm.pretraining.optimisation import OptimizerSettings
from mlm.pretraining.prediction import head_in_words
from mlm.pretraining.training import Pretraining, Trained, number_of_steps, pretrain
from mlm.pretraining.training_log import write_rows
from mlm.publishing.background import PushSettings, background_pushes
from mlm.results.artefacts import write_artefact
from mlm.shards.manifests import (
    Manifest,
    check_sequence_length,
    check_shards,
    read_manifest,
    shards_root,
)
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.files import TOKENIZER_FILES, copy_tokenizer

FORMAT_VERSION = 1

SCRIPTS = Path(__file__).parents[2]

#: Modules that decide the bits of the weights: the model and where it starts, the order of the
#: samples, their masks, the step, the optimizer. An edit elsewhere keeps the states.
COMPUTING_MODULES = (
    "mlm.config.families",
    "mlm.foundations.framework",
    "mlm.pretraining.initialisation",
    "mlm.batches.input_pipeline",
    "mlm.batches.keyed_random",
    "mlm.pretraining.length",
    "mlm.batches.masking",
    "mlm.batches.masking_settings",
    "mlm.pretraining.models",
    "mlm.pretraining.optimisation",
    "mlm.pretraining.prediction",
    "mlm.pretraining.train_step",
    "mlm.tokenizer.pieces",
)

#: Packages whose versions are part of a state: others may compute other bits.
COMPUTING_PACKAGES = ("numpy", "tensorflow", "tf-keras", "transformers")


@dataclass(frozen=True)
class RunSettings:
    """What the configuration says of one run, in resolved sections."""

    name: str
    model: dict
    pretraining: dict
    accelerator: dict
    seed: int
    sequence_length: int
    corpus: str

    @property
    def own_seed(self) -> int:
        """The run's own seed, or that of the configuration."""
        own = self.pretraining["seed"]
        return self.seed if own is None else own


@dataclass(frozen=True)
class RunFiles:
    """Where a run reads and writes.

    `preflight` is the preflight.json that must have passed before a TPU which `auto` found
    trains; None where none is asked for.
    """

    tokenizer: str
    manifests: dict[str, str]
    model_directory: str
    log: str
    summary: str
    preflight: str | None = None


def read_checked_manifests(files: RunFiles, sequence_length: int) -> dict[str, Manifest]:
    """The manifests of the run, checked against the tokenizer, the length and the shards.

    Raises MlmError before anything is trained on data that is not what it claims to be.
    """
    manifests = {split: read_manifest(path) for split, path in files.manifests.items()}
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
                f"({tokenizer_sha256[:12]}…). Delete results/shards/{split} and run again"
            )
        check_shards(manifest, shards_root(manifest, files.manifests[split]))
    return manifests


def pretraining_of(
    settings: RunSettings, files: RunFiles, manifests: dict[str, Manifest], replicas: int
) -> Pretraining:
    """The run with every setting resolved against its data and the number of replicas."""
    section = settings.pretraining
    encoder = Encoder.load(files.tokenizer)
    request = ModelRequest.of(settings.model)
    length = settings.sequence_length
    batch = (
        section["per_replica_batch_size"]
        * replicas
        * section["optimizer"]["gradient_accumulation_steps"]
    )
    steps = number_of_steps(section, manifests["train"].num_samples, length, batch)
    plan = masking_plan(section["masking"], encoder, files.tokenizer, length)
    fixed = {"mlm_probability": 0.15, "mask_token": 0.8, "random_token": 0.1}
    shards = {s: ShardFiles.of(m, shards_root(m, files.manifests[s])) for s, m in manifests.items()}
    return Pretraining(
        name=settings.name,
        model_config=model_configuration(request, encoder, length),
        initialisation=request.initialisation,
        seed=settings.own_seed,
        plan=plan,
        # Validation asks the same at every share, so that runs compare.
        validation_plan=masking_plan(
            section["masking"] | fixed | {"whole_word": False, "slots": None},
            encoder,
            files.tokenizer,
            length,
        ),
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
        profile=tuple(section["profile"]) if section["profile"] else None,
        export_every_epochs=section["export_every_epochs"],
    )


def state_basis(settings: RunSettings, files: RunFiles, accelerator: Accelerator) -> dict:
    """What a saved state must have been made from for this run to go on from it.

    The run's settings, what the device came to, manifests, tokenizer, the packages and the
    modules that compute. Where and how often states are saved, which TPU it is, and code that
    logs, reports or uploads is left out.
    """
    pretraining = {k: v for k, v in settings.pretraining.items() if k != "checkpoint"}
    code = code_digests(SCRIPTS, COMPUTING_MODULES)
    return {
        "settings": {
            "name": settings.name,
            "model": settings.model,
            "pretraining": pretraining | {"seed": settings.own_seed},
            "sequence_length": settings.sequence_length,
            "corpus": settings.corpus,
        },
        "device": {
            "kind": accelerator.kind,
            "replicas": accelerator.replicas,
            "precision": accelerator.precision,
            "cpu_threads": settings.accelerator["cpu_threads"],
        },
        "packages": package_versions(COMPUTING_PACKAGES),
        "manifests": {s: file_sha256(p) for s, p in files.manifests.items()},
        "tokenizer": file_sha256(files.tokenizer),
        "code": {name: code[name] for name in COMPUTING_MODULES},
    }


def train_and_export(
    settings: RunSettings, files: RunFiles, pushing: PushSettings | None = None
) -> None:
    """Check the data, train or resume, and write the model, training.csv and training.json.

    `pushing` says where checkpoints are pushed to meanwhile; it changes none of these.
    """
    manifests = read_checked_manifests(files, settings.sequence_length)
    accelerator = open_accelerator(AcceleratorSettings.of(settings.accelerator))
    run = pretraining_of(settings, files, manifests, accelerator.replicas)
    if settings.accelerator["kind"] == "auto" and accelerator.kind == "tpu" and files.preflight:
        require_passed(files.preflight, run.name, _step(run, accelerator))
    checkpoint = settings.pretraining["checkpoint"]
    states = StateDirectory.of(
        f"{checkpoint['directory'].rstrip('/')}/{settings.name}",
        checkpoint["keep"],
        state_basis(settings, files, accelerator),
    )
    print(
        f"{run.name}: {run.model_config.model_type}, {accelerator.name} with "
        f"{accelerator.replicas} replica(s), {accelerator.precision}; {run.steps} steps of "
        f"{run.global_batch_size(accelerator.replicas)} samples; "
        f"{head_in_words(run.model_config.model_type)}",
        file=sys.stderr,
    )
    beside = tuple(Path(files.tokenizer).parent / name for name in TOKENIZER_FILES)
    with background_pushes(pushing, states.path, beside) as pushes:
        trained = pretrain(run, accelerator, states, pushes)
        if trained.overflow:
            print(
                f"Warning: {trained.overflow} masked tokens found no prediction slot and were left "
                "unmasked; raise pretraining.masking.slots",
                file=sys.stderr,
            )
        _export(trained, files, settings.sequence_length)
        summary = _summary(settings, files, manifests, run, accelerator, trained)
        card = model_card(summary, corpus=settings.corpus)
        write_text(f"{files.model_directory}/README.md", card)
        write_rows(files.log, trained.rows)
        write_artefact(files.summary, summary)


def _step(run: Pretraining, accelerator: Accelerator) -> dict:
    """The sizes of the run's step, as preflight.json names them."""
    return {
        "model_type": run.model_config.model_type,
        "precision": accelerator.precision,
        "per_replica_batch_size": run.per_replica_batch_size,
        "gradient_accumulation_steps": run.optimizer.gradient_accumulation_steps,
        "sequence_length": run.plan.sequence_length,
        "vocabulary_size": run.plan.vocabulary_size,
        "slots": run.plan.slots,
    }


def _export(trained: Trained, files: RunFiles, sequence_length: int) -> None:
    place = files.model_directory
    export_model(trained.model, place)
    copy_tokenizer(Path(files.tokenizer).parent, place, model_max_length=sequence_length)


def _summary(
    settings: RunSettings,
    files: RunFiles,
    manifests: dict[str, Manifest],
    run: Pretraining,
    accelerator: Accelerator,
    trained: Trained,
) -> dict:
    """training.json: what was trained how, without anything that differs between two runs."""
    batch = run.global_batch_size(accelerator.replicas)
    last = trained.rows[-1]
    optimizer = asdict(run.optimizer)
    return {
        "format_version": FORMAT_VERSION,
        "run": settings.name,
        "seed": run.seed,
        "strategy": accelerator.name,
        "accelerator": accelerator.kind,
        "precision": accelerator.precision,
        "replicas": accelerator.replicas,
        "global_batch_size": batch,
        "per_replica_batch_size": run.per_replica_batch_size,
        "sequence_length": settings.sequence_length,
        "steps": run.steps,
        "epochs": round(run.steps * batch / run.train.num_samples, 6),
        "steps_per_epoch": round(run.train.num_samples / batch, 6),
        "tokens": run.steps * batch * settings.sequence_length,
        "parameters": number_of_parameters(trained.model),
        "model_type": run.model_config.model_type,
        "initialisation": run.initialisation,
        "head": head_in_words(run.model_config.model_type),
        "slots": run.plan.slots,
        "overflow": trained.overflow,
        "masking": settings.pretraining["masking"],
        "optimizer": optimizer,
        "final": {
            "loss": round(last.loss, 6),
            "accuracy": round(last.accuracy, 6),
            "validation_loss": round(last.validation_loss, 6),
            "validation_accuracy": round(last.validation_accuracy, 6),
        },
        "digests": {
            "model": file_sha256(f"{files.model_directory}/model.safetensors"),
            "tokenizer": file_sha256(files.tokenizer),
            "manifests": {s: file_sha256(p) for s, p in sorted(files.manifests.items())},
        },
        "packages": package_versions(),
    }
